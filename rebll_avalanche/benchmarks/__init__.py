"""Benchmarks: streams of multi-label experiences from data sets, your own images, or synthetic scenes.

Avalanche is imported when a name is first used: a trained model reads images without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# The module of each name.
_EXPORTS = {
    "COCO2014": "coco",
    "VOC2007": "voc",
    "MultiLabelBenchmark": "generator",
    "MultiLabelScenes": "scenes",
    "MultiLabelTargets": "targets",
    "evaluation_transform": "transforms",
    "from_csv": "own",
    "from_table": "own",
    "multilabel_benchmark": "generator",
    "training_transform": "transforms",
}

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
