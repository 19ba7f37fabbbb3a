"""An inference-only backbone: batch norms and activations are folded into the preceding convolutions.

Evaluations, teachers and predictions need no statistics and no gradients. In evaluation mode a batch norm
is a scale and a shift per channel, which the preceding convolution can absorb, and oneDNN applies an
activation while it writes the map. This saves two passes over every map; outputs agree up to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from rebll_avalanche.models.fused import ACTIVATIONS, FusedConvolution, can_be_fused
from rebll_avalanche.models.quick import put

# Largest difference between the maps of the folded and the plain backbone, relative to the largest value.
TOLERANCE = 1e-4


class FoldedBackbone:
    """Caches the folded copy of a backbone while its weights do not change.

    It is not part of the model's state: copies and saved models start without one.
    """

    def __init__(self) -> None:
        self._copy: nn.Module | None = None
        self._made_of: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Callable[[], FoldedBackbone], tuple[()]]:
        return FoldedBackbone, ()

    def forget(self) -> None:
        """Free the copy; the next call of :meth:`of` makes a new one."""
        self._copy, self._made_of = None, ()

    def of(self, backbone: nn.Module, images: Tensor) -> nn.Module:
        """The folded copy, or the backbone itself if it has hooks or nothing can be folded."""
        if not _may_be_copied(backbone, images):
            return backbone
        tensors = [*backbone.parameters(), *backbone.buffers()]
        made_of = tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)
        if self._copy is None or made_of != self._made_of:
            self._copy, self._made_of = folded(backbone, images), made_of
        return self._copy


def _may_be_copied(backbone: nn.Module, images: Tensor) -> bool:
    if images.ndim != 4 or images.device.type != "cpu" or backbone.training:
        return False
    if backbone._compiled_call_impl is not None or torch.compiler.is_compiling():
        return False
    # Hooks need the maps of this backbone; they would not be called on a copy.
    return not any(m._forward_hooks or m._forward_pre_hooks for m in backbone.modules())


@torch.no_grad()
def folded(backbone: nn.Module, images: Tensor) -> nn.Module:
    """A copy without the batch norms whose input is the output of exactly one convolution.

    Args:
        backbone: A backbone in evaluation mode.
        images: Valid inputs; one of them is used to trace which module follows which.

    Returns:
        The copy; or the backbone itself if there is nothing to fold or the maps differ.
    """
    example = images[:1]
    pairs, expected = _pairs(backbone, example)
    if not pairs:
        return backbone
    inference = copy.deepcopy(backbone)
    for convolution_name, norm_name in pairs:
        norm: Any = inference.get_submodule(norm_name)
        convolution: Any = inference.get_submodule(convolution_name)
        follows = _what_follows(norm)
        convolution = fuse_conv_bn_eval(convolution, norm)
        if type(follows) in ACTIVATIONS and can_be_fused(convolution):
            convolution, follows = FusedConvolution(convolution, follows), nn.Identity()
        put(inference, convolution_name, convolution)
        put(inference, norm_name, follows)
    if example.is_contiguous(memory_format=torch.channels_last):
        inference.to(memory_format=torch.channels_last)
    difference = (inference(example) - expected).abs().max()
    return inference if difference <= TOLERANCE * expected.abs().max() else backbone


def _pairs(backbone: nn.Module, example: Tensor) -> tuple[list[tuple[str, str]], Tensor]:
    """Names of convolutions and their batch norms, and the output map of the example."""
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
        expected: Tensor = backbone(example)
    finally:
        for hook in hooks:
            hook.remove()
    once = [name for _, name in made_by]
    norms = [norm for _, norm in pairs]
    # Modules called twice would have to be folded twice.
    return [p for p in pairs if once.count(p[0]) == norms.count(p[1]) == 1], expected


def _can_be_folded(module: nn.Module) -> bool:
    if not isinstance(module, nn.BatchNorm2d) or module.running_mean is None:
        return False
    return type(module) is nn.BatchNorm2d or isinstance(getattr(module, "act", None), nn.Module)


def _what_follows(norm: nn.Module) -> nn.Module:
    """The activation that a batch norm layer of timm applies at its end."""
    return nn.Identity() if type(norm) is nn.BatchNorm2d else cast(nn.Module, norm.act)
