"""The frozen previous model: one copy and one forward pass per batch, however many ask."""

from __future__ import annotations

import copy
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn

from rebll_avalanche.protocols import Strategy


class Teacher:
    """The model as it was at the end of the previous experience, in evaluation mode.

    Plugins of one strategy that want the same kind of teacher share one (:func:`share_teacher`). The
    copy is taken when an experience ends, because at the next one Avalanche has grown the head before
    any plugin is asked; it takes office when the next experience begins, so that whoever still needs the
    older model at the end of an experience finds it, in whatever order the plugins run.

    Attributes:
        calibrated: Whether its probabilities are what they say, and not shrunk by the loss it learned by.
    """

    calibrated = False

    def __init__(self) -> None:
        self.model: nn.Module | None = None
        self.successor: nn.Module | None = None
        self._saved: dict[str, Tensor] | None = None
        self._batch: Tensor | None = None
        self._logits: Tensor | None = None
        self.forward_passes = 0

    def begin_experience(self, strategy: Strategy) -> None:
        """Promote the copy taken at the end of the last experience."""
        if self._saved is not None:
            self.model = frozen_copy(strategy.model)
            load_resized(self.model, self._saved)
            self._saved = None
        if self.successor is not None:
            self.model, self.successor = self.successor, None

    def end_experience(self, strategy: Strategy) -> None:
        """Copy the model just trained; asking twice copies once."""
        if self.successor is None:
            self.successor = frozen_copy(strategy.model)
        self._batch = self._logits = None

    def logits(self, batch: Tensor) -> Tensor:
        """The teacher's logits for a batch of images, whole as the student sees them, computed once."""
        if self.model is None:
            raise ValueError("there is no teacher before the first experience has ended")
        if self._batch is not batch or self._logits is None:
            self._logits = forward_frozen(self.model, whole_pictures(self.model, batch))
            self._batch = batch
            self.forward_passes += 1
        return self._logits

    def state_dict(self) -> dict[str, Any]:
        """Weights of the teacher of the next batch; empty before there is one."""
        if self._saved is not None:
            return self._saved
        newest = self.successor or self.model
        return {} if newest is None else newest.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take weights: at once if there is a teacher, else when the next experience begins."""
        self.successor = self._batch = self._logits = None
        if self.model is not None and state:
            load_resized(self.model, state)
            self._saved = None
        else:
            self.model, self._saved = None, dict(state) or None


class TaughtPlugin(SupervisedPlugin):
    """A plugin with a teacher: copied when an experience ends, and all that a checkpoint needs of it."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = Teacher()

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Copy the model: it teaches the next experience."""
        self.teacher.end_experience(strategy)

    def state_dict(self) -> dict[str, Any]:
        """The teacher; everything else is set anew by the next experience."""
        return {"teacher": self.teacher.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        self.teacher.load_state_dict(state["teacher"])


def share_teacher(strategy: Strategy, own: Teacher) -> Teacher:
    """The teacher of the first plugin that has one of the same kind: these plugins agree on it."""
    teachers = (getattr(plugin, "teacher", None) for plugin in strategy.plugins)
    return next((teacher for teacher in teachers if type(teacher) is type(own)), own)


def whole_pictures(model: nn.Module, batch: Tensor) -> Tensor:
    """A batch without the windows that a model in evaluation mode would look at, and one that learns not."""
    whole = getattr(model, "whole", None)
    return batch if whole is None else whole(batch)


def forward_frozen(model: nn.Module, batch: Tensor) -> Tensor:
    """Logits without any autograd state."""
    with torch.inference_mode():
        logits: Tensor = model(batch)
    # A clone outside inference mode may be used in a loss; it is a small matrix.
    return logits.clone()


def load_resized(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Load weights of another head width, as a teacher's are, into a network of the same kind."""
    for name, saved in state.items():
        owner_name, _, attribute = name.rpartition(".")
        owner = module.get_submodule(owner_name)
        here = getattr(owner, attribute)
        if here.shape != saved.shape:
            empty = torch.empty_like(saved, device=here.device)
            parameter = isinstance(here, nn.Parameter)
            setattr(
                owner, attribute, nn.Parameter(empty, here.requires_grad) if parameter else empty
            )
    module.load_state_dict(state)


def frozen_copy(model: nn.Module) -> nn.Module:
    """A copy that only answers."""
    return copy.deepcopy(model).eval().requires_grad_(False)
