"""A teacher that does not forget: a closed-form head on the network as the first experience left it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torch import nn

from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.plugins.teacher import Teacher, frozen_copy
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import class_range


class ClosedFormTeacher(Teacher):
    """Takes the place of the previous model for AKD and for relabelling.

    Its network is the strategy's after the first experience and never changes; its head is solved from
    sums over all images so far. So it knows the earlier classes as well as on the day they came,
    whatever becomes of the network that it teaches. It passes over an experience before the student
    does, which shows it the negatives in there and the new classes too.

    Args:
        **options: Of :class:`~rebll_avalanche.plugins.closed_form.ClosedFormPlugin`.
    """

    calibrated = True

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.closed_form = ClosedFormPlugin(**options)
        self._prepared = -1

    def begin_experience(self, strategy: Strategy) -> None:
        """Pass over the experience and solve; asking twice does it once."""
        super().begin_experience(strategy)
        number = strategy.experience.current_experience
        if self.model is not None and number != self._prepared:
            self._prepared = number
            self.model = self._learned(frozen_copy(self.model), strategy)

    def end_experience(self, strategy: Strategy) -> None:
        """After the first experience, take over the network: by then it knows this kind of images."""
        if self.model is None and self.successor is None:
            self._prepared = strategy.experience.current_experience
            self.successor = self._learned(frozen_copy(strategy.model), strategy)
        elif self.model is not None:
            self.successor = self.model
        super().end_experience(strategy)

    def _learned(self, network: Any, strategy: Strategy) -> nn.Module:
        """The network with a head that knows the experience."""
        network.head.grow(class_range(strategy.experience)[1])
        seen = SimpleNamespace(
            model=network.requires_grad_(False),
            experience=strategy.experience,
            eval_mb_size=strategy.eval_mb_size,
            device=strategy.device,
        )
        self.closed_form.before_training_exp(seen)
        self.closed_form.after_training_exp(seen)
        learned: nn.Module = network
        return learned

    def state_dict(self) -> dict[str, Any]:
        """The network, the head, the sums, and the last experience that these know."""
        return {
            "network": super().state_dict(),
            "closed_form": self.closed_form.state_dict(),
            "prepared": self._prepared,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        super().load_state_dict(state["network"])
        self.closed_form.load_state_dict(state["closed_form"])
        self._prepared = state["prepared"]
