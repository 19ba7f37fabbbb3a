"""Results of each training step, from which average mAP and forgetting are computed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor

from rebll_avalanche.metrics.functional import average_map, forgetting


class StepHistory:
    """Per-class AP after each training experience, for each evaluated stream.

    A step is a completed training experience. Its result is that of the first later evaluation that
    includes the experience of the same number (a stream of a single experience is the test set of every
    step). Repeated or earlier evaluations, or those on other experiences, have no effect. Training an
    experience again reopens its step.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self._steps: dict[str, dict[int, Tensor]] = {}
        self._unfinished: dict[str, tuple[Collection[int] | None, Tensor]] = {}

    def training_goes_on(self) -> None:
        """Discard evaluations during this step, since the model is about to change."""
        self.step = None
        self._unfinished.clear()

    def training_ended(self, step: int) -> list[str]:
        """Complete the step of an experience.

        A periodic evaluation after the last update counts, since it used the final model and Avalanche
        does not evaluate again.

        Returns:
            The streams whose history was extended.
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
        """Add an evaluation.

        Args:
            stream: Name of the stream.
            experiences: Numbers of the evaluated experiences; None if the stream has only one.
            average_precision: AP per class.

        Returns:
            Whether it belongs to the current step.
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
        """The state that a resumed run needs, as plain containers of tensors."""
        steps = {stream: dict(steps) for stream, steps in self._steps.items()}
        return {"step": self.step, "average_precision": steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.step = state["step"]
        self._steps = {stream: dict(steps) for stream, steps in state["average_precision"].items()}
        self._unfinished.clear()
