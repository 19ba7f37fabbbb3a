"""Replacing a strategy's base loss term while keeping the terms that other plugins add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from avalanche.training.templates.problem_type import SupervisedProblem
from avalanche.training.templates.update_type import SGDUpdate
from torch import Tensor, nn

from rebll_avalanche.compatibility import check_compatibility
from rebll_avalanche.distributed.joining import take_part
from rebll_avalanche.protocols import Strategy

BaseLoss = Callable[[Tensor, Tensor, str], Tensor]


class InstalledCriterion(nn.Module):
    """Replaces a strategy's criterion: ``loss`` in training, the original in evaluation.

    Args:
        strategy: Tells whether it is training.
        original: The criterion that is replaced.
        loss: ``(logits, targets, reduction) -> loss``; must ignore NaN targets, since plugins such as
            AGEM and GEM also call it with images of earlier experiences.
    """

    def __init__(self, strategy: Strategy, original: Any, loss: BaseLoss) -> None:
        super().__init__()
        self.strategy = strategy
        self.original = original
        self.loss = loss
        # Not the original's reduction, which is for evaluation; Avalanche's MIR sets it to "none" and back.
        self.reduction = "mean"

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The plugin's loss in training, the original in evaluation."""
        if not self.strategy.is_training:
            value: Tensor = self.original(logits, targets)
            return value
        return self.loss(logits, targets, self.reduction)


def install_criterion(strategy: Strategy, loss: BaseLoss) -> None:
    """Replace the base term by ``loss``, a plugin's method, until :func:`restore_criterion`.

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
    """Restore the strategy's own criterion."""
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
            f"{type(strategy).__name__} {what}, which {type(plugin).__name__} cannot change; use the "
            "plugin in Naive, Cumulative, Replay, EWC or another strategy that uses its criterion, "
            "or use the RebLL strategy"
        )
    check_compatibility(strategy)
    take_part(strategy)
