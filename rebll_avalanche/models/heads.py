"""Heads that grow with the classes, from a feature map to one logit per seen class."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from rebll_avalanche.models.adaptable import Adaptable
from rebll_avalanche.protocols import Experience
from rebll_avalanche.words import check_choice


def enlarged(old: Tensor, shape: tuple[int, ...], fill: Tensor) -> nn.Parameter:
    """A parameter of ``shape`` that keeps ``old`` bit for bit in its leading block.

    Args:
        old: The learned values.
        shape: At least as large as ``old`` in every dimension.
        fill: Initial values of the whole new tensor; ``old`` overwrites its corner.
    """
    new = fill.detach().to(old).reshape(shape).clone()
    new[tuple(slice(0, size) for size in old.shape)] = old.detach()
    return nn.Parameter(new)


def as_map(features: Tensor) -> Tensor:
    """Return a feature map ``[batch, channels, h, w]`` unchanged, and a vector as a map of one position."""
    return features if features.ndim == 4 else features[:, :, None, None]


class GrowingHead(Adaptable):
    """Base class of heads; subclasses implement :meth:`grow` and ``forward``.

    A head grows when Avalanche adapts the model to a *training* experience. Evaluation never grows it,
    so the width always equals the number of classes learned. Loading a ``state_dict`` of any width
    resizes the head.
    """

    @property
    def num_classes(self) -> int:
        """How many classes the head predicts now."""
        raise AttributeError(f"{type(self).__name__} does not implement num_classes")

    def grow(self, total: int) -> None:
        """Grow to ``total`` classes; existing values are kept bit for bit."""
        raise AttributeError(f"{type(self).__name__} does not implement grow")

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """``[batch, classes, height, width]``: each position's evidence for each class."""
        raise AttributeError(f"{type(self).__name__} has no class activation maps")

    def adaptation(self, experience: Experience) -> None:
        """Avalanche's hook, called before every experience, in training and in evaluation."""
        if not self.training:
            return
        seen = getattr(experience, "classes_seen_so_far", None)
        if seen is None:
            seen = range(max(experience.classes_in_this_experience) + 1)
        if len(seen) > self.num_classes:
            self.grow(len(seen))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # A checkpoint is usually loaded into a new model, whose head is still empty.
        for name, buffer in list(self._buffers.items()):
            saved = state_dict.get(prefix + name)
            if buffer is not None and saved is not None and saved.shape != buffer.shape:
                self._buffers[name] = torch.empty_like(saved, device=buffer.device)
        for name, parameter in list(self._parameters.items()):
            saved = state_dict.get(prefix + name)
            if parameter is not None and saved is not None and saved.shape != parameter.shape:
                self._parameters[name] = nn.Parameter(
                    torch.empty_like(saved, device=parameter.device),
                    requires_grad=parameter.requires_grad,
                )
        super()._load_from_state_dict(state_dict, prefix, *args)


class GrowingLinear(GrowingHead):
    """Global pooling and one linear row per class: the paper's plain network.

    Args:
        in_features: Channels of the feature map (or length of the feature vector).
        pooling: ``"mean"`` over the map, as usual, or ``"max"``, which suits small objects.
    """

    def __init__(self, in_features: int, *, pooling: str = "mean") -> None:
        super().__init__()
        check_choice("pooling", pooling, ("mean", "max"))
        self.in_features = in_features
        self.pooling = pooling
        self.weight = nn.Parameter(torch.empty(0, in_features))
        self.bias = nn.Parameter(torch.empty(0))

    @property
    def num_classes(self) -> int:
        """Rows of the weight matrix."""
        return len(self.weight)

    def grow(self, total: int) -> None:
        """Add rows, initialised as ``nn.Linear`` does."""
        bound = 1 / math.sqrt(self.in_features)
        weight = torch.empty(total, self.in_features).uniform_(-bound, bound)
        self.weight = enlarged(self.weight, (total, self.in_features), weight)
        self.bias = enlarged(self.bias, (total,), torch.empty(total).uniform_(-bound, bound))

    def forward(self, features: Tensor) -> Tensor:
        """Logits of a feature map ``[batch, channels, h, w]`` or of vectors ``[batch, channels]``."""
        if features.ndim == 4:
            pool = features.mean if self.pooling == "mean" else features.amax
            features = pool(dim=(2, 3))
        return nn.functional.linear(features, self.weight, self.bias)

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """The linear head applied before pooling; with mean pooling, a map's mean is its logit."""
        return torch.einsum("bdhw,cd->bchw", feature_map, self.weight)
