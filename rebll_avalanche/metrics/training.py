"""Training metrics per epoch: loss terms, memory labels, false positives."""

from __future__ import annotations

from typing import Any

import torch
from avalanche.evaluation import PluginMetric
from avalanche.evaluation.metric_results import MetricValue
from torch import Tensor

from rebll_avalanche.distributed.ranks import total
from rebll_avalanche.protocols import Strategy


class TrainingTerms(PluginMetric):
    """Logs metrics of a strategy's plugins once per epoch.

    * ``LossTerm_<name>``: mean of each unweighted loss term (cls, akd, er ...), from every plugin
      with ``terms``;
    * ``LabelShare_<source>``: share of memory labels per source, from every plugin with ``memory``;
    * ``FPR@<threshold>``: false-positive rate on the annotated labels of the training batches.

    Args:
        threshold: A class with a higher probability counts as predicted.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__()
        self.threshold = threshold
        self._counts: Tensor | None = None

    def __str__(self) -> str:
        return "TrainingTerms"

    def reset(self) -> None:
        """Start a new epoch."""
        self._counts = None

    def result(self) -> float | None:
        """The false-positive rate since the epoch began."""
        if self._counts is None:
            return None
        false_positives, negatives = total(self._counts).tolist()
        return float(false_positives / max(negatives, 1))

    def before_training_epoch(self, strategy: Strategy) -> None:
        """Start afresh."""
        self.reset()
        for plugin in _unique(strategy.plugins, "terms"):
            plugin.terms.reset()

    def after_training_iteration(self, strategy: Strategy) -> None:
        """Count on the device, without waiting for it."""
        logits = strategy.mb_output.detach()
        negative = strategy.mb_y[:, : logits.shape[1]] == 0
        predicted = logits.float().sigmoid() > self.threshold
        counts = torch.stack([(predicted & negative).sum(), negative.sum()])
        self._counts = counts if self._counts is None else self._counts + counts

    def after_training_epoch(self, strategy: Strategy) -> list[MetricValue]:
        """Emit the means of the epoch."""
        values: dict[str, float] = {}
        for plugin in _unique(strategy.plugins, "terms"):
            values |= {f"LossTerm_{name}": mean for name, mean in plugin.terms.means().items()}
        for plugin in _unique(strategy.plugins, "memory"):
            if len(plugin.memory):
                shares = plugin.memory.provenance_shares()
                values |= {f"LabelShare_{who}": share for who, share in shares.items()}
        rate = self.result()
        if rate is not None:
            values[f"FPR@{self.threshold:g}"] = rate
        stream = strategy.experience.origin_stream.name
        position = strategy.clock.train_iterations
        return [
            MetricValue(self, f"{name}_Epoch/train_phase/{stream}_stream", value, position)
            for name, value in values.items()
        ]


def _unique(plugins: list[Any], attribute: str) -> list[Any]:
    """Plugins with an attribute, one per distinct value."""
    found = {id(getattr(p, attribute)): p for p in plugins if hasattr(p, attribute)}
    return list(found.values())
