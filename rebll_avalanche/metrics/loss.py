"""The loss as a metric, computed without waiting for the device at every step."""

from __future__ import annotations

from typing import Any

import torch
from avalanche.evaluation import GenericPluginMetric, Metric
from torch import Tensor

from rebll_avalanche.distributed.ranks import total
from rebll_avalanche.protocols import Strategy


class DelayedMean(Metric[float]):
    """A weighted mean of scalars that stay on their device until the mean is read.

    Avalanche's own mean converts every value to a Python number at once, for which a GPU has to finish
    its step. Results are the same: values are added in the same order and precision, only later.
    """

    def __init__(self) -> None:
        self._values: list[Tensor] = []
        self._weights: list[int] = []

    def update(self, value: Tensor, weight: int) -> None:
        """Add a value."""
        self._values.append(value)
        self._weights.append(weight)

    def result(self) -> float:
        """The mean; 0 if there are no values."""
        if not self._values:
            return 0.0
        # Each rank of a job has its part of every loss, and its part of every batch.
        values = total(torch.stack(self._values)).tolist()
        weights = total(torch.tensor(self._weights)).tolist()
        summed = sum(value * weight for value, weight in zip(values, weights, strict=True))
        return float(summed / sum(weights))

    def reset(self) -> None:
        """Remove all values."""
        self._values, self._weights = [], []


class DelayedLoss(GenericPluginMetric[float, DelayedMean]):
    """The mean loss per sample, under the names of Avalanche's own loss metrics."""

    def __init__(self, name: str, per: Any, mode: Any) -> None:
        super().__init__(DelayedMean(), reset_at=per, emit_at=per, mode=mode)
        self._name = name

    def __str__(self) -> str:
        return self._name

    def update(self, strategy: Strategy) -> None:
        """Add the loss of a batch."""
        self._metric.update(strategy.loss.detach().mean(), len(strategy.mb_y))


def delayed_loss_metrics() -> list[DelayedLoss]:
    """The loss per training epoch, and per experience and stream of an evaluation."""
    return [
        DelayedLoss("Loss_Epoch", "epoch", "train"),
        DelayedLoss("Loss_Exp", "experience", "eval"),
        DelayedLoss("Loss_Stream", "stream", "eval"),
    ]
