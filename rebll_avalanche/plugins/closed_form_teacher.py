"""A teacher that does not forget: a closed-form head on the network as the first experience left it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.plugins.teacher import Teacher, frozen_copy
from rebll_avalanche.scenario import class_range


class ClosedFormTeacher(Teacher):
    """Takes the place of the previous model for AKD and for relabelling.

    Its network is the strategy's after the first experience and never changes; its head is solved at
    the end of every experience from sums over all images so far. So it knows the earlier classes as
    well as on the day they came, whatever becomes of the network that it teaches.

    Args:
        **options: Of :class:`~rebll_avalanche.plugins.closed_form.ClosedFormPlugin`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.closed_form = ClosedFormPlugin(**options)

    def end_experience(self, strategy: Any) -> None:
        """Add the experience to the sums and solve; asking twice does it once."""
        if self.successor is None:
            # After the first experience, not before it: by then the network knows this kind of images.
            network = strategy.model if self.model is None else self.model
            successor: Any = frozen_copy(network)
            successor.head.grow(class_range(strategy.experience)[1])
            seen = SimpleNamespace(
                model=successor.requires_grad_(False),
                experience=strategy.experience,
                eval_mb_size=strategy.eval_mb_size,
                device=strategy.device,
            )
            self.closed_form.before_training_exp(seen)
            self.closed_form.after_training_exp(seen)
            self.successor = successor
        super().end_experience(strategy)

    def state_dict(self) -> dict[str, Any]:
        """The network, the head and the sums."""
        return {"network": super().state_dict(), "closed_form": self.closed_form.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        super().load_state_dict(state["network"])
        self.closed_form.load_state_dict(state["closed_form"])
