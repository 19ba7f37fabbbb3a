"""A teacher that does not forget: a closed-form head on the network frozen after the first experience."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from torch import nn

from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.plugins.teacher import Teacher, frozen_copy
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import class_range

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rebll_avalanche.plugins.signatures import RidgeOptions


class ClosedFormTeacher(Teacher):
    """Replaces the previous model as the teacher of AKD and relabelling.

    Its network is a frozen copy of the strategy's after the first experience; its head is solved from
    sums over all images so far. It therefore keeps its accuracy on earlier classes, however the
    student changes. It learns each experience before the student does, so it knows the new classes
    and the experience's negatives.

    Args:
        **options: Parameters of :class:`~rebll_avalanche.closed_form.learner.RidgeLearner`.
    """

    calibrated = True

    def __init__(self, **options: Unpack[RidgeOptions]) -> None:
        super().__init__()
        self.closed_form = ClosedFormPlugin(**options)
        self._prepared = -1

    def begin_experience(self, strategy: Strategy) -> None:
        """Learn the experience and solve; a second call does nothing."""
        super().begin_experience(strategy)
        number = strategy.experience.current_experience
        if self.model is not None and number != self._prepared:
            self._prepared = number
            self.model = self._learned(frozen_copy(self.model), strategy)

    def end_experience(self, strategy: Strategy) -> None:
        """Copy the network after the first experience, when it has adapted to the images."""
        if self.model is None and self.successor is None:
            self._prepared = strategy.experience.current_experience
            self.successor = self._learned(frozen_copy(strategy.model), strategy)
        elif self.model is not None:
            self.successor = self.model
        super().end_experience(strategy)

    def _learned(self, network: Any, strategy: Strategy) -> nn.Module:
        """The network with a head solved on the experience too."""
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
        """The network, the head, the sums, and the last experience learned."""
        return {
            "network": super().state_dict(),
            "closed_form": self.closed_form.state_dict(),
            "prepared": self._prepared,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        super().load_state_dict(state["network"])
        self.closed_form.load_state_dict(state["closed_form"])
        self._prepared = state["prepared"]
