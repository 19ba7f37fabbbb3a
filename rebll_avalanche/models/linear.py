"""Linear layers whose matrix products oneDNN computes, where torch's own take twice as long.

torch multiplies float32 matrices with MKL, which does not use the 512-bit instructions of AMD's processors;
oneDNN, which torch includes for convolutions, does. A vision transformer consists of such products, so it
trains and answers in about half the time. Results agree up to rounding.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rebll_avalanche.models.eager import is_eager

# Smaller products cost less than calling oneDNN.
SMALLEST_SIDE = 64


class QuickLinear(nn.Linear):
    """A linear layer with the names, the parameters and the outputs of the one it replaces."""

    def __init__(self, layer: nn.Linear) -> None:
        has_bias = layer.bias is not None
        super().__init__(layer.in_features, layer.out_features, has_bias, device="meta")
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, vectors: Tensor) -> Tensor:
        """The product."""
        if not is_eager(vectors):
            return super().forward(vectors)
        rows = vectors.reshape(-1, self.in_features).contiguous()
        found: Tensor = _Linear.apply(rows, self.weight, self.bias)
        return found.view(*vectors.shape[:-1], self.out_features)


def gains_linear(layer: nn.Module) -> bool:
    """Whether :class:`QuickLinear` is faster than this layer on this machine."""
    large = type(layer) is nn.Linear and min(layer.weight.shape) >= SMALLEST_SIDE
    return large and layer.weight.dtype == torch.float32 and onednn_is_faster()


@cache
def onednn_is_faster() -> bool:
    """Whether the processor has 512-bit instructions that MKL does not use: AMD's. Not measured, so that a
    machine always gives the same bits."""
    return (
        torch.backends.cpu.get_cpu_capability() == "AVX512"
        and torch.backends.mkl.is_available()
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and "AuthenticAMD" in _processor()
    )


def _processor() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return platform.processor()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        of_rows, of_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(rows if of_weight else None, weight if of_rows else None)
        return _product(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        of_rows, of_weight, of_bias = ctx.needs_input_grad
        return (
            _product(gradient, weight.t().contiguous()) if of_rows else None,
            _product(gradient.t(), rows.t()) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``rows @ weight.T + bias``."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return found
