"""The loss as a metric, gathered without waiting for the device."""

from __future__ import annotations

from typing import Any

import torch
from avalanche.evaluation import GenericPluginMetric, Metric
from torch import Tensor

from rebll_avalanche.distributed.ranks import total
from rebll_avalanche.protocols import Strategy


class DelayedMean(Metric[float]):
    """A weighted mean of scalars that stay on their device until somebody asks for it.

    Avalanche's own mean turns every value into a Python number at once, and a GPU has to finish its
    step for that. Values are the same: they are added in the same order and precision, only later.
    """

    def __init__(self) -> None:
        self._values: list[Tensor] = []
        self._weights: list[int] = []

    def update(self, value: Tensor, weight: int) -> None:
        """Note one more value."""
        self._values.append(value)
        self._weights.append(weight)

    def result(self) -> float:
        """The mean; 0 of nothing."""
        if not self._values:
            return 0.0
        # Each rank of a job has its part of every loss, and its part of every batch.
        values = total(torch.stack(self._values)).tolist()
        weights = total(torch.tensor(self._weights)).tolist()
        summed = sum(value * weight for value, weight in zip(values, weights, strict=True))
        return float(summed / sum(weights))

    def reset(self) -> None:
        """Forget everything."""
        self._values, self._weights = [], []


class DelayedLoss(GenericPluginMetric[float, DelayedMean]):
    """The mean loss per sample, under the names that Avalanche's own loss metrics have.

    Args:
        name: ``"Loss_Epoch"``, ``"Loss_Exp"`` or ``"Loss_Stream"``.
        per: ``"epoch"``, ``"experience"`` or ``"stream"``.
        mode: ``"train"`` or ``"eval"``.
    """

    def __init__(self, name: str, per: Any, mode: Any) -> None:
        super().__init__(DelayedMean(), reset_at=per, emit_at=per, mode=mode)
        self._name = name

    def __str__(self) -> str:
        return self._name

    def update(self, strategy: Strategy) -> None:
        """Note the loss of a batch."""
        self._metric.update(strategy.loss.detach().mean(), len(strategy.mb_y))


def delayed_loss_metrics() -> list[DelayedLoss]:
    """The loss per training epoch, and per experience and stream of an evaluation."""
    return [
        DelayedLoss("Loss_Epoch", "epoch", "train"),
        DelayedLoss("Loss_Exp", "experience", "eval"),
        DelayedLoss("Loss_Stream", "stream", "eval"),
    ]
