"""Depthwise convolutions that train faster on a CPU: the same layer with its own backward pass.

oneDNN has a fast weight gradient for depthwise kernels of up to three columns. For wider ones it falls back
to ordinary convolutions, which take ten to twenty times as long: with 5 x 5 kernels, a fifth of a training
step of EfficientNet-Lite0. Here the gradient of a wide kernel is computed for two or three columns at a
time, which is the same sum, so results agree up to rounding. Padding that depends on the size of the map
("same", as in TensorFlow's networks) is part of the layer, which saves two passes over the map.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv2d, pad

from rebll_avalanche.models.eager import is_eager

# The widest kernel whose weight gradient oneDNN computes with its depthwise kernel.
FAST_COLUMNS = 3

# Zeros left, right, above and below of a map.
Around = tuple[int, int, int, int]


class DepthwiseConv2d(nn.Conv2d):
    """A depthwise convolution with the names, the parameters and the outputs of the one it replaces.

    Args:
        layer: A depthwise ``nn.Conv2d``, or timm's ``Conv2dSame``; its parameters are shared.
    """

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,  # type: ignore[arg-type]
            layer.stride,  # type: ignore[arg-type]
            layer.padding,  # type: ignore[arg-type]
            groups=layer.groups,
            bias=layer.bias is not None,
            device="meta",
        )
        self.weight, self.bias = layer.weight, layer.bias
        self.pads_itself = pads_itself(layer)
        rows, columns = map(int, layer.padding)
        self._around = (columns, columns, rows, rows)

    def forward(self, maps: Tensor) -> Tensor:
        """The convolution."""
        around = same_padding(maps, self) if self.pads_itself else self._around
        last = maps.is_contiguous(memory_format=torch.channels_last)
        if last and torch.is_grad_enabled() and is_eager(maps):
            found: Tensor = _Depthwise.apply(maps, self.weight, self.bias, self.stride, around)
            return found
        if self.pads_itself:
            return conv2d(
                padded(maps, around), self.weight, self.bias, self.stride, groups=self.groups
            )
        return super().forward(maps)


def pads_itself(layer: nn.Conv2d) -> bool:
    """Whether a layer computes its padding from the map, as timm's layers for TensorFlow's networks do."""
    return type(layer).__name__ == "Conv2dSame" or getattr(layer, "pads_itself", False)


def gains_depthwise(layer: nn.Conv2d) -> bool:
    """Whether :class:`DepthwiseConv2d` is faster than this layer."""
    ordinary = type(layer) is nn.Conv2d or pads_itself(layer)
    depthwise = layer.groups == layer.in_channels == layer.out_channels > 1
    plain = layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    fits = plain and not isinstance(layer.padding, str)
    return (
        ordinary
        and depthwise
        and fits
        and (layer.kernel_size[1] > FAST_COLUMNS or pads_itself(layer))
    )


class _Depthwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: tuple[int, int],
        around: Around,
    ) -> Tensor:
        ctx.save_for_backward(maps, weight)
        ctx.stride, ctx.around = stride, around
        padding, leading = alike(around)
        return conv2d(maps, pad(weight, leading), bias, stride, padding, groups=len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        maps, weight = ctx.saved_tensors
        of_maps, of_weight, of_bias = ctx.needs_input_grad[:3]
        padding, leading = alike(ctx.around)
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        found: list[Tensor | None] = [None, None, None]
        if of_maps:
            found[0] = _backward(gradient, maps, pad(weight, leading), ctx.stride, padding, 0)
        if of_weight:
            if any(leading):  # a wider kernel would take longer than this copy
                maps, padding = padded(maps, ctx.around), (0, 0)
            found[1] = weight_gradient(gradient, maps, weight, ctx.stride, padding)
        if of_bias:
            found[2] = gradient.sum((0, 2, 3))
        return (*found, None, None)


def alike(around: Around) -> tuple[tuple[int, int], Around]:
    """The same zeros for operators that put as many at either end of a map.

    Where only the end needs another one, a kernel with a zero at its beginning does the same: it starts one
    pixel earlier. Copying the map would take longer.

    Returns:
        Zeros above and below, zeros left and right; and those to put around the kernel.
    """
    left, right, above, below = around
    return (below, right), (right - left, 0, below - above, 0)


def weight_gradient(
    gradient: Tensor,
    maps: Tensor,
    weight: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
) -> Tensor:
    """The gradient of a depthwise kernel, a few columns of it at a time.

    Columns ``a`` to ``a + n`` of a kernel see the map from its column ``a`` on. Instead of cutting the map,
    the outputs' gradient gets ``a / stride`` columns of zeros on its left, so ``a`` is a multiple of the
    stride. What is left of the map beyond the last output meets zeros on the right.
    """
    rows, columns = weight.shape[2:]
    if columns <= FAST_COLUMNS or stride[1] > FAST_COLUMNS:
        return _backward(gradient, maps, weight, stride, padding, 1)
    above, left = padding
    if maps.shape[2] < rows:  # on maps this small oneDNN wants them padded
        maps, above = padded(maps, (0, 0, above, above)), 0
    maps = padded(maps, (left, left, 0, 0))
    parts, first = [], 0
    while first < columns:
        left_over = columns - first
        count = left_over if left_over <= FAST_COLUMNS else FAST_COLUMNS // stride[1] * stride[1]
        part = weight[..., first : first + count]
        before = first // stride[1]
        outputs = (maps.shape[3] - count) // stride[1] + 1
        wide = padded(gradient, (before, outputs - before - gradient.shape[3], 0, 0))
        parts.append(_backward(wide, maps, part, stride, (above, 0), 1))
        first += count
    return torch.cat(parts, dim=3)


def _backward(
    gradient: Tensor,
    maps: Tensor,
    weight: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
    which: int,
) -> Tensor:
    """torch's backward pass of a depthwise convolution: of its maps (0) or of its weights (1)."""
    found: Tensor = torch.ops.aten.convolution_backward(
        gradient, maps, weight, None, stride, padding, [1, 1], False, [0, 0], len(weight),
        [which == 0, which == 1, False],
    )[which]  # fmt: skip
    return found


def padded(maps: Tensor, around: Around) -> Tensor:
    """Surround maps by zeros; torch's own function writes zeros everywhere first."""
    left, right, above, below = around
    if not any(around):
        return maps
    if not is_eager(maps):  # one operator for exporters, compilers and GPUs
        return pad(maps, around)
    images, channels, height, width = maps.shape
    last = maps.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    shape = (images, channels, above + height + below, left + width + right)
    wide = torch.empty(shape, dtype=maps.dtype, device=maps.device, memory_format=layout)
    wide[:, :, :above] = 0
    wide[:, :, above + height :] = 0
    wide[:, :, :, :left] = 0
    wide[:, :, :, left + width :] = 0
    wide[:, :, above : above + height, left : left + width] = maps
    return wide


def same_padding(maps: Tensor, layer: nn.Conv2d) -> Around:
    """The zeros that give one output per stride; an odd one goes to the end."""
    around: list[int] = []
    for size, kernel, stride, dilation in zip(
        maps.shape[:1:-1],
        layer.kernel_size[::-1],
        layer.stride[::-1],
        layer.dilation[::-1],
        strict=True,
    ):
        missing = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
        around += [missing // 2, missing - missing // 2]
    return around[0], around[1], around[2], around[3]
