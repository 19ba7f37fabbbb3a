"""What each step of training has reached: the memory behind average mAP and forgetting."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor

from rebll_avalanche.metrics.functional import average_map, forgetting


class StepHistory:
    """Per-class AP after each training experience, for each stream that is evaluated.

    A step is a training experience that has come to its end. Its number is that of the first
    evaluation after that which includes the experience of the same number (a stream of a single
    experience is the test of every step). Whatever is evaluated more often, earlier or on other
    experiences changes nothing. Training an experience again opens its step again.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self._steps: dict[str, dict[int, Tensor]] = {}
        self._unfinished: dict[str, tuple[Collection[int] | None, Tensor]] = {}

    def training_goes_on(self) -> None:
        """The model is about to change: what was evaluated during this step is out of date."""
        self.step = None
        self._unfinished.clear()

    def training_ended(self, step: int) -> list[str]:
        """An experience has been learnt.

        A periodic evaluation behind the last update has already seen the model as it is now, and
        Avalanche does not evaluate again then; so it counts.

        Returns:
            The streams whose history this has extended.
        """
        self.step = step
        for steps in self._steps.values():
            steps.pop(step, None)
        unfinished, self._unfinished = self._unfinished, {}
        return [
            stream
            for stream, (seen, values) in unfinished.items()
            if self.add(stream, seen, values)
        ]

    def add(
        self, stream: str, experiences: Collection[int] | None, average_precision: Tensor
    ) -> bool:
        """Note an evaluation.

        Args:
            stream: Its name.
            experiences: The numbers of the experiences in it; None if the stream has only one.
            average_precision: Per class.

        Returns:
            Whether it is one of the current step.
        """
        if self.step is None:
            self._unfinished[stream] = experiences, average_precision
            return False
        if experiences is not None and self.step not in experiences:
            return False
        self._steps.setdefault(stream, {}).setdefault(self.step, average_precision)
        return True

    def values(self, stream: str) -> dict[str, float]:
        """Average mAP so far and, once there are old classes, forgetting."""
        history = list(self._steps.get(stream, {}).values())
        values = {"AvgmAP": average_map(history), "Forgetting": forgetting(history)}
        return {name: value for name, value in values.items() if value == value}

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs to go on, as plain containers of tensors."""
        steps = {stream: dict(steps) for stream, steps in self._steps.items()}
        return {"step": self.step, "average_precision": steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        self.step = state["step"]
        self._steps = {stream: dict(steps) for stream, steps in state["average_precision"].items()}
        self._unfinished.clear()
