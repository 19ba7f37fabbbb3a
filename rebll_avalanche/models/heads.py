"""Heads that grow with the classes, from a feature map to one logit per seen class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rebll_avalanche.arguments import check_number
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


def resize_for(module: nn.Module, state: Mapping[str, Tensor], prefix: str = "") -> None:
    """Give a module's own parameters and buffers the shapes that they have in a saved state."""
    tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
    for own in tables:
        for name, here in own.items():
            saved = state.get(prefix + name)
            if here is None or saved is None or saved.shape == here.shape:
                continue
            empty = torch.empty_like(saved, device=here.device)
            is_parameter = isinstance(here, nn.Parameter)
            own[name] = nn.Parameter(empty, here.requires_grad) if is_parameter else empty


def per_class(per_experience: Tensor, sizes: Tensor, classes: int) -> Tensor:
    """Repeat each experience's entry along dimension 1 for every class that it added.

    Args:
        per_experience: ``[batch, experiences, ...]``.
        sizes: Number of classes that each experience added.
        classes: Their sum.
    """
    places = torch.arange(classes, device=per_experience.device)
    experience_of = (places[:, None] >= sizes.cumsum(dim=0)).sum(dim=1)
    return per_experience.index_select(1, experience_of)


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
        resize_for(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)


class GrowingLinear(GrowingHead):
    """Global pooling and one linear row per class: the paper's plain network.

    Args:
        in_features: Channels of the feature map (or length of the feature vector).
        pooling: ``"mean"`` over the map, as usual, or ``"max"``, which suits small objects.
    """

    def __init__(self, in_features: int, *, pooling: str = "mean") -> None:
        super().__init__()
        check_number("in_features", in_features, 1, 2**20, whole=True)
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
