"""Replacing a strategy's base loss term without touching what other plugins add to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from avalanche.training.templates.problem_type import SupervisedProblem
from avalanche.training.templates.update_type import SGDUpdate
from torch import Tensor, nn

from rebll_avalanche.companions import check_companions
from rebll_avalanche.labels import check_criterion
from rebll_avalanche.protocols import Strategy

BaseLoss = Callable[[Tensor, Tensor, str], Tensor]


class InstalledCriterion(nn.Module):
    """Stands in for a strategy's criterion: ``loss`` while training, the original in evaluation.

    Args:
        strategy: Asked whether it is training.
        original: What was installed before.
        loss: ``(logits, targets, reduction) -> loss``; must ignore NaN targets, since plugins such as
            AGEM and GEM also call it with images of earlier experiences.
    """

    def __init__(self, strategy: Strategy, original: Any, loss: BaseLoss) -> None:
        super().__init__()
        self.strategy = strategy
        self.original = original
        self.loss = loss
        # Not the original's, which is for evaluation; Avalanche's MIR sets it to "none" and back.
        self.reduction = "mean"

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss that fits what the strategy is doing."""
        if not self.strategy.is_training:
            value: Tensor = self.original(logits, targets)
            return value
        return self.loss(logits, targets, self.reduction)


def install_criterion(strategy: Strategy, loss: BaseLoss) -> None:
    """Put ``loss``, a plugin's method, in the place of the base term until it is restored.

    Raises:
        ValueError: When another plugin has already replaced the base term.
    """
    installed = strategy._criterion
    if isinstance(installed, InstalledCriterion):
        first, second = _owner(installed.loss), _owner(loss)
        if first is not second:
            raise ValueError(
                f"{type(first).__name__} and {type(second).__name__} both replace the loss of this "
                "strategy, so one of them would be ignored; use one of the two"
            )
    strategy._criterion = InstalledCriterion(strategy, plain_criterion(strategy), loss)


def restore_criterion(strategy: Strategy) -> None:
    """Give the strategy its own criterion back."""
    strategy._criterion = plain_criterion(strategy)


def _owner(loss: BaseLoss) -> Any:
    return getattr(loss, "__self__", loss)


def plain_criterion(strategy: Strategy) -> Any:
    """The criterion that the strategy was built with."""
    installed = strategy._criterion
    return installed.original if isinstance(installed, InstalledCriterion) else installed


def check_steerable(strategy: Strategy, plugin: Any) -> None:
    """Refuse strategies whose own training loop or loss would silently ignore a plugin.

    Raises:
        ValueError: Naming the strategy and what to use instead.
    """
    kind: Any = type(strategy)
    own_loop = kind.training_epoch is not SGDUpdate.training_epoch
    own_loss = kind.criterion is not SupervisedProblem.criterion
    if own_loop or own_loss:
        what = "runs its own training loop" if own_loop else "computes its own loss"
        raise ValueError(
            f"{type(strategy).__name__} {what}, which {type(plugin).__name__} cannot steer; put the "
            "plugin into Naive, Cumulative, Replay, EWC or another strategy that uses its criterion, "
            "or use the RebLL strategy"
        )
    check_companions(strategy)


def check_base_loss(strategy: Strategy) -> None:
    """Refuse a strategy's own criterion if it cannot learn from the labels of the experience.

    Raises:
        ValueError: See :func:`~rebll_avalanche.labels.check_criterion`.
    """
    outputs = getattr(strategy.model, "num_classes", None)
    check_criterion(plain_criterion(strategy), strategy.experience.dataset, outputs)
