"""Multi-label metrics: pure functions, and Avalanche metrics over them.

The functions need only torch; parts that need Avalanche are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rebll_avalanche.metrics.functional import (
    average_map,
    average_precision,
    decisions,
    forgetting,
    mean_average_precision,
    multilabel_scores,
)
from rebll_avalanche.metrics.keys import metric_key, read_metrics
from rebll_avalanche.metrics.scores import MultiLabelScores, ThresholdScores

if TYPE_CHECKING:
    from rebll_avalanche.metrics.plugin import (
        Evaluation,
        MultiLabelMetrics,
        last_evaluation,
        multilabel_evaluator,
        multilabel_metric,
        multilabel_metrics,
    )

__all__ = [
    "Evaluation",
    "MultiLabelMetrics",
    "MultiLabelScores",
    "ThresholdScores",
    "average_map",
    "average_precision",
    "decisions",
    "forgetting",
    "last_evaluation",
    "mean_average_precision",
    "metric_key",
    "multilabel_evaluator",
    "multilabel_metric",
    "multilabel_metrics",
    "multilabel_scores",
    "read_metrics",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("rebll_avalanche.metrics.plugin"), name)
