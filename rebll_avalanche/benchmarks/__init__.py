"""Benchmarks: streams of multi-label experiences from data sets, own images, or drawn scenes."""

from rebll_avalanche.benchmarks.coco import COCO2014
from rebll_avalanche.benchmarks.generator import MultiLabelBenchmark, multilabel_benchmark
from rebll_avalanche.benchmarks.own import from_csv, from_table
from rebll_avalanche.benchmarks.scenes import MultiLabelScenes
from rebll_avalanche.benchmarks.targets import MultiLabelTargets
from rebll_avalanche.benchmarks.transforms import evaluation_transform, training_transform
from rebll_avalanche.benchmarks.voc import VOC2007

__all__ = [
    "COCO2014",
    "VOC2007",
    "MultiLabelBenchmark",
    "MultiLabelScenes",
    "MultiLabelTargets",
    "evaluation_transform",
    "from_csv",
    "from_table",
    "multilabel_benchmark",
    "training_transform",
]
