"""The frozen previous model: one copy and one forward pass per batch, shared by all plugins."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn

from rebll_avalanche.models.heads import resize_for
from rebll_avalanche.plugins.networks import check_learnable
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import class_range
from rebll_avalanche.stateful import Stateful


class Teacher:
    """The model at the end of the previous experience, in evaluation mode.

    Plugins of one strategy that need the same kind of teacher share one (:func:`share_teacher`). The
    copy is made when an experience ends, because Avalanche grows the head for the next one before it
    calls any plugin. It becomes the active teacher when the next experience begins, so that plugins can
    still use the older model at the end of an experience, in whatever order they run.

    Attributes:
        calibrated: Whether its probabilities are calibrated, not shrunk by its training loss.

    >>> from types import SimpleNamespace
    >>> strategy, teacher = SimpleNamespace(model=nn.Linear(4, 2)), Teacher()
    >>> teacher.end_experience(strategy)  # copies the model
    >>> teacher.begin_experience(strategy)
    >>> teacher.logits(torch.rand(3, 4)).shape
    torch.Size([3, 2])
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
        """Activate the copy made at the end of the last experience."""
        if self._saved is not None:
            self.model = frozen_copy(strategy.model)
            load_resized(self.model, self._saved)
            self._saved = None
        if self.successor is not None:
            self.model, self.successor = self.successor, None

    def end_experience(self, strategy: Strategy) -> None:
        """Copy the trained model; a second call does nothing."""
        if self.successor is None:
            self.successor = frozen_copy(strategy.model)
        self._batch = self._logits = None

    def logits(self, batch: Tensor) -> Tensor:
        """The teacher's logits for a batch without window inputs, computed once per batch."""
        if self.model is None:
            raise ValueError("there is no teacher before the first experience has ended")
        if self._batch is not batch or self._logits is None:
            self._logits = forward_frozen(self.model, whole_pictures(self.model, batch))
            self._batch = batch
            self.forward_passes += 1
        return self._logits

    def state_dict(self) -> dict[str, Any]:
        """Weights of the newest copy; empty before the first one."""
        if self._saved is not None:
            return self._saved
        newest = self.successor or self.model
        return {} if newest is None else newest.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load weights: at once if there is a teacher, else when the next experience begins."""
        self.successor = self._batch = self._logits = None
        if self.model is not None and state:
            load_resized(self.model, state)
            self._saved = None
        else:
            self.model, self._saved = None, dict(state) or None


class TaughtPlugin(Stateful, SupervisedPlugin):
    """A plugin with a teacher, which it copies when an experience ends and saves in checkpoints.

    Attributes:
        teacher: The previous model, shared with the strategy's other plugins.
        old_classes: Number of classes of earlier experiences; theirs are the first columns.

    >>> class Anchor(TaughtPlugin):
    ...     def before_backward(self, strategy, **kwargs):
    ...         if self.distils:  # not in the first experience
    ...             before, now = self.old_logits(strategy)
    ...             strategy.loss += (now - before).square().mean()
    >>> Anchor().distils
    False
    """

    # Everything else is set when the next experience begins.
    stored: ClassVar[tuple[str, ...]] = ("teacher",)

    def __init__(self) -> None:
        super().__init__()
        self.teacher = Teacher()
        self.old_classes = 0

    @property
    def distils(self) -> bool:
        """Whether there are earlier classes and a model that has learned them."""
        return self.teacher.model is not None and self.old_classes > 0

    def old_logits(self, strategy: Strategy) -> tuple[Tensor, Tensor]:
        """Logits of the earlier classes for the current batch: the teacher's and the model's."""
        teacher = self.teacher.logits(strategy.mb_x)
        return teacher[:, : self.old_classes], strategy.mb_output[:, : self.old_classes]

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Share one teacher with the other plugins."""
        self.teacher = share_teacher(strategy, self.teacher)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the network, and activate the teacher."""
        check_learnable(strategy)
        self.teacher.begin_experience(strategy)
        self.old_classes, _ = class_range(strategy.experience)

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Copy the model, the teacher of the next experience."""
        self.teacher.end_experience(strategy)


def share_teacher(strategy: Strategy, own: Teacher) -> Teacher:
    """The teacher of the strategy's first plugin that has one of the same kind."""
    teachers = (getattr(plugin, "teacher", None) for plugin in strategy.plugins)
    return next((teacher for teacher in teachers if type(teacher) is type(own)), own)


def whole_pictures(model: nn.Module, batch: Tensor) -> Tensor:
    """Drop the window inputs, which models use only in evaluation."""
    whole = getattr(model, "whole", None)
    return batch if whole is None else whole(batch)


def forward_frozen(model: nn.Module, batch: Tensor) -> Tensor:
    """Logits, computed without autograd."""
    with torch.inference_mode():
        logits: Tensor = model(batch)
    # Inference tensors cannot be used in a loss; a clone made outside inference mode can.
    return logits.clone()


def load_resized(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Load the weights of a network that differs only in the width of its head."""
    for name, part in module.named_modules():
        resize_for(part, state, f"{name}." if name else "")
    module.load_state_dict(state)


def frozen_copy(model: nn.Module) -> nn.Module:
    """A copy in evaluation mode without gradients."""
    return copy.deepcopy(model).eval().requires_grad_(False)
