"""Training that has left the range of useful numbers is stopped, not finished."""

from __future__ import annotations

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from rebll_avalanche.errors import DivergedError
from rebll_avalanche.models.weights import not_finite
from rebll_avalanche.protocols import Strategy

# A loss may rise when a teacher or a memory joins in; never so far.
EXPLODED = 1e4
# Iterations between looks: on a GPU, each look waits for all that was asked of it before.
EVERY = 20


class DivergencePlugin(SupervisedPlugin):
    """Stops when the loss explodes, or when it or a weight is no longer a finite number.

    Belongs before whatever saves the model after an epoch, so that the last saved state is a good one.

    Raises:
        DivergedError: Saying where, and what to change.
    """

    def __init__(self) -> None:
        super().__init__()
        self._largest: Tensor | None = None
        self._limit: Tensor | None = None
        self._iterations = 0

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Every experience has its own loss to begin with."""
        self._largest = self._limit = None
        self._iterations = 0

    def after_training_iteration(self, strategy: Strategy, **kwargs: Any) -> None:
        """Note the loss; look now and then."""
        loss = strategy.loss.detach().squeeze().float()
        if self._largest is None or self._limit is None:
            self._limit = EXPLODED * loss.clamp(min=1.0)
            self._largest = loss
        self._largest = torch.maximum(self._largest, loss)  # keeps NaN
        self._iterations += 1
        if self._iterations % EVERY == 0:
            self._look(strategy)

    def after_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Look at the loss once more, and at every weight."""
        self._look(strategy)
        self.after_training_exp(strategy)

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Look at every weight, also at those that are solved for at the end."""
        wrong = not_finite(strategy.model.state_dict())
        if wrong:
            self._stop(strategy, f"{wrong} is no longer finite")

    def _look(self, strategy: Strategy) -> None:
        if self._largest is None or self._limit is None:
            return
        largest, limit = float(self._largest), float(self._limit)
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
