"""A convolution and its activation in one oneDNN call, for inference on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from rebll_avalanche.models.depthwise import (
    Around,
    DepthwiseConv2d,
    alike,
    padded,
    pads_itself,
    same_padding,
)

# oneDNN's name and parameters of an activation.
ACTIVATIONS: dict[type[nn.Module], tuple[str, list[float]]] = {
    nn.ReLU: ("relu", []),
    nn.ReLU6: ("hardtanh", [0.0, 6.0]),
    nn.SiLU: ("swish", []),
    nn.Identity: ("none", []),  # no activation, but kernels stay in oneDNN's layout
}

# Batch sizes to cache: full batches, the last one, and the one that a copy is tested with.
MOST_SHAPES = 3


def can_be_fused(convolution: nn.Conv2d) -> bool:
    """Whether torch has its compiler's fused operator and the layer is a plain one on a CPU."""
    ordinary = type(convolution) in (nn.Conv2d, DepthwiseConv2d) or pads_itself(convolution)
    return (
        ordinary
        and not isinstance(convolution.padding, str)
        and convolution.padding_mode == "zeros"
        and convolution.weight.dtype == torch.float32
        and convolution.weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_convolution_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_convolution_weight")
    )


class FusedConvolution(nn.Module):
    """A convolution and an activation, with kernels in oneDNN's memory layout.

    Args:
        convolution: A convolution with a bias, such as one with a folded batch norm.
        activation: One of :data:`ACTIVATIONS`.
    """

    def __init__(self, convolution: nn.Conv2d, activation: nn.Module) -> None:
        super().__init__()
        self.plain = nn.Sequential(convolution, activation)
        self._name, self._numbers = ACTIVATIONS[type(activation)]
        self._pads_itself = pads_itself(convolution)
        # In a dictionary: a tensor in oneDNN's layout can neither be a parameter nor be copied.
        self._packed: dict[tuple[int, ...], Tensor] = {}

    def unpack(self) -> None:
        """Free the kernels in oneDNN's layout, because those of the convolution change."""
        self._packed.clear()

    def forward(self, images: Tensor) -> Tensor:
        """The activation of the convolution."""
        layer: Any = self.plain[0]
        if torch.is_autocast_enabled("cpu") or images.dtype != torch.float32:
            plain: Tensor = self.plain(images)
            return plain
        images, padding, leading = self._padding(images)
        sizes = (list(padding), list(layer.stride), list(layer.dilation), layer.groups)
        shape = tuple(images.shape)
        kernels = self._packed.get(shape)  # another thread may clear them meanwhile
        if kernels is None:
            if len(self._packed) >= MOST_SHAPES:
                self._packed.clear()
            kernels = self._packed[shape] = torch.ops.mkldnn._reorder_convolution_weight(
                pad(layer.weight, leading), *sizes, list(shape)
            )
        found: Tensor = torch.ops.mkldnn._convolution_pointwise(
            images, kernels, layer.bias, *sizes, self._name, self._numbers, ""
        )
        return found

    def _padding(self, images: Tensor) -> tuple[Tensor, tuple[int, int], Around]:
        """The images, the zeros at both ends of rows and columns, and zeros to put around the kernel."""
        layer: Any = self.plain[0]
        if not self._pads_itself:
            return images, layer.padding, (0, 0, 0, 0)
        around = same_padding(images, layer)
        padding, leading = alike(around)
        if any(leading) and (
            layer.groups == 1 or layer.dilation != (1, 1)
        ):  # dense: copying is faster
            return padded(images, around), (0, 0), (0, 0, 0, 0)
        return images, padding, leading
