"""Benchmarks: streams of multi-label experiences from data sets, own images, or drawn scenes."""

from rebll_avalanche.benchmarks.generator import MultiLabelBenchmark, multilabel_benchmark
from rebll_avalanche.benchmarks.scenes import MultiLabelScenes
from rebll_avalanche.benchmarks.targets import MultiLabelTargets

__all__ = ["MultiLabelBenchmark", "MultiLabelScenes", "MultiLabelTargets", "multilabel_benchmark"]
