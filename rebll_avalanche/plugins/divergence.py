"""Stops training that diverges."""

from __future__ import annotations

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from rebll_avalanche.distributed.ranks import total
from rebll_avalanche.errors import DivergedError
from rebll_avalanche.models.weights import not_finite
from rebll_avalanche.protocols import Strategy

# Growth relative to the first loss. Distillation or replay may raise a loss, but never this much.
EXPLODED = 1e4
# Iterations between checks: on a GPU, each check waits for all queued operations.
EVERY = 20


class DivergencePlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Stops when the loss explodes, or when it or a weight is no longer finite.

    Place it before plugins that save the model after an epoch, so that the last saved state is valid.

    Raises:
        DivergedError: Names the experience and epoch, and what to change.
    """

    def __init__(self) -> None:
        super().__init__()
        self._largest: Tensor | None = None
        self._limit: Tensor | None = None
        self._iterations = 0

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Reset the reference loss, which differs between experiences."""
        self._largest = self._limit = None
        self._iterations = 0

    def after_training_iteration(self, strategy: Strategy, **kwargs: Any) -> None:
        """Record the loss; check it every few iterations."""
        loss = strategy.loss.detach().squeeze().float()
        if self._largest is None or self._limit is None:
            self._limit = EXPLODED * loss.clamp(min=1.0)
            self._largest = loss
        self._largest = torch.maximum(self._largest, loss)  # keeps NaN
        self._iterations += 1
        if self._iterations % EVERY == 0:
            self._look(strategy)

    def after_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the loss and every weight."""
        self._look(strategy)
        self.after_training_exp(strategy)

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check every weight, including those solved in closed form at the end."""
        wrong = not_finite(strategy.model.state_dict())
        if wrong:
            self._stop(strategy, f"{wrong} is no longer finite")

    def _look(self, strategy: Strategy) -> None:
        if self._largest is None or self._limit is None:
            return
        # All ranks must come to the same decision.
        largest, limit = float(total(self._largest)), float(total(self._limit))
        if not largest < limit:  # also NaN
            self._stop(strategy, f"the loss is {largest:g}")

    def _stop(self, strategy: Strategy, what: str) -> None:
        rate = max(group["lr"] for group in strategy.optimizer.param_groups)
        raise DivergedError(
            f"training diverged in experience {strategy.experience.current_experience}, epoch "
            f"{strategy.clock.train_exp_epochs}: {what}. The last good checkpoint is kept. The learning "
            f"rate is {rate:g} now; use a smaller training.lr in another --folder, or look for inputs "
            "that are not finite"
        )
