"""An inference-only backbone: batch norms and activations are folded into the preceding convolutions.

Evaluations, teachers and predictions need no statistics and no gradients. In evaluation mode a batch norm
is a scale and a shift per channel, which the preceding convolution can absorb, and oneDNN applies an
activation while it writes the map. This saves two passes over every map; outputs agree up to rounding.
"""

from __future__ import annotations

import copy
import operator
import threading
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from rebll_avalanche.models.fused import ACTIVATIONS, FusedConvolution, can_be_fused
from rebll_avalanche.models.quick import put

# Largest difference between the maps of the folded and the plain backbone, relative to the largest value.
TOLERANCE = 1e-4


class FoldedBackbone:
    """Caches the folded copy of a backbone, and its weights while those of the backbone do not change.

    It is not part of the model's state: copies and saved models start without one.
    """

    def __init__(self) -> None:
        self._copy: FoldedCopy | None = None
        self._usable = False
        self._versions: list[tuple[int, int]] | None = None
        self._lock = threading.Lock()  # a server asks one network from several threads

    def __reduce__(self) -> tuple[Callable[[], FoldedBackbone], tuple[()]]:
        return FoldedBackbone, ()

    def forget(self) -> None:
        """Free the folded weights; the next call of :meth:`of` computes them anew."""
        if self._copy is not None and self._versions is not None:
            self._copy.clear()
        self._versions = None

    def of(self, backbone: nn.Module, images: Tensor) -> nn.Module:
        """The folded copy, or the backbone itself if it has hooks or nothing can be folded."""
        if not _may_be_copied(backbone, images):
            return backbone
        parts = _parts(backbone)
        tensors = [part for part in parts if isinstance(part, Tensor)]
        versions = [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors]
        with self._lock:
            if self._copy is None or not _identical(parts, self._copy.made_of):
                self._copy, self._versions = FoldedCopy(backbone, images), None
            if versions != self._versions:
                self._usable, self._versions = self._copy.fold(images), versions
            return self._copy.network if self._usable else backbone


def _parts(backbone: nn.Module) -> list[Any]:
    """Everything that a backbone is made of: its modules and its tensors."""
    modules = list(backbone.modules())
    held = (each for m in modules for each in (*m._parameters.values(), *m._buffers.values()))
    return [*modules, *(tensor for tensor in held if tensor is not None)]


def _identical(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _may_be_copied(backbone: nn.Module, images: Tensor) -> bool:
    if images.ndim != 4 or images.device.type != "cpu" or backbone.training:
        return False
    if backbone._compiled_call_impl is not None or torch.compiler.is_compiling():
        return False
    # Hooks need the maps of this backbone; they would not be called on a copy.
    return not any(m._forward_hooks or m._forward_pre_hooks for m in backbone.modules())


class FoldedCopy:
    """A copy without the batch norms whose input is the output of exactly one convolution.

    It has its own weights where batch norms were folded, and shares all others with the backbone.

    Args:
        backbone: A backbone in evaluation mode.
        images: Valid inputs; one of them is used to trace which module follows which.

    Attributes:
        network: The copy; without weights of its own until :meth:`fold`.
        made_of: The backbone's modules and tensors.
    """

    @torch.no_grad()
    def __init__(self, backbone: nn.Module, images: Tensor) -> None:
        self.made_of = _parts(backbone)
        self._backbone = backbone
        shared = {id(part): part for part in self.made_of if isinstance(part, Tensor)}
        self.network = copy.deepcopy(backbone, shared)
        # Each folded convolution with the layers that its weights come from.
        self._folds: list[tuple[nn.Conv2d, nn.Conv2d, Any]] = []
        for convolution_name, norm_name in _pairs(backbone, images[:1]):
            norm: Any = backbone.get_submodule(norm_name)
            plain: Any = backbone.get_submodule(convolution_name)
            own: Any = self.network.get_submodule(convolution_name)
            follows = _what_follows(self.network.get_submodule(norm_name))
            self._folds.append((own, plain, norm))
            if can_be_fused(own):
                inside = follows if type(follows) in ACTIVATIONS else nn.Identity()
                put(self.network, convolution_name, FusedConvolution(own, inside))
                follows = nn.Identity() if inside is follows else follows
            put(self.network, norm_name, follows)

    @torch.no_grad()
    def fold(self, images: Tensor) -> bool:
        """Compute the weights; whether there are any and the maps of one image agree."""
        self.clear()
        for own, plain, norm in self._folds:
            own.weight, own.bias = fuse_conv_bn_weights(
                plain.weight, plain.bias, norm.running_mean, norm.running_var,
                norm.eps, norm.weight, norm.bias,
            )  # fmt: skip
        if not self._folds:
            return False
        expected = self._backbone(images[:1])
        difference = (self.network(images[:1]) - expected).abs().max()
        return bool(difference <= TOLERANCE * expected.abs().max())

    def clear(self) -> None:
        """Free the weights."""
        for own, plain, _ in self._folds:
            own.weight, own.bias = plain.weight, plain.bias
        for module in self.network.modules():
            if isinstance(module, FusedConvolution):
                module.unpack()


def _pairs(backbone: nn.Module, example: Tensor) -> list[tuple[str, str]]:
    """Names of convolutions and their batch norms."""
    made_by: list[tuple[Tensor, str]] = []
    pairs: list[tuple[str, str]] = []
    hooks = []

    def watch(name: str) -> Callable[..., None]:
        def note(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
            if isinstance(module, nn.Conv2d):
                made_by.append((output, name))
                return
            pairs.extend((source, name) for made, source in made_by if made is given[0])

        return note

    for name, module in backbone.named_modules():
        if isinstance(module, nn.Conv2d) or _can_be_folded(module):
            hooks.append(module.register_forward_hook(watch(name)))
    try:
        backbone(example)
    finally:
        for hook in hooks:
            hook.remove()
    once = [name for _, name in made_by]
    norms = [norm for _, norm in pairs]
    # Modules called twice would have to be folded twice.
    return [p for p in pairs if once.count(p[0]) == norms.count(p[1]) == 1]


def _can_be_folded(module: nn.Module) -> bool:
    if not isinstance(module, nn.BatchNorm2d) or module.running_mean is None:
        return False
    return type(module) is nn.BatchNorm2d or isinstance(getattr(module, "act", None), nn.Module)


def _what_follows(norm: nn.Module) -> nn.Module:
    """The activation that a batch norm layer of timm applies at its end."""
    return nn.Identity() if type(norm) is nn.BatchNorm2d else cast(nn.Module, norm.act)
