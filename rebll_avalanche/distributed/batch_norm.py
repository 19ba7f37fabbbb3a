"""Batch norm over the batch of all ranks; torch's own does so on GPUs only."""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from rebll_avalanche.distributed.ranks import total, world_size

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class _Normalise(torch.autograd.Function):
    """Batch norm with the statistics of all ranks; one message per pass, with torch's own kernels."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, variance, count = _statistics(x)
        ctx.save_for_backward(x, weight, mean, variance, count)
        ctx.eps = eps
        ctx.mark_non_differentiable(mean, variance, count)
        return batch_norm(x, mean, variance, weight, bias, eps=eps), mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, mean, variance, count = ctx.saved_tensors
        if len(x):
            _, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
                gradient, x, weight, mean, variance, None, None, False, ctx.eps, [False, True, True]
            )
        else:
            of_weight, of_bias = torch.zeros_like(mean.expand(2, -1))
        # Each value also affects the outputs of all ranks, through mean and variance.
        whole = total(torch.stack([of_weight, of_bias])) / count
        scale = weight * (variance + ctx.eps).rsqrt()
        slope, offset = (whole * -scale).to(mean)
        # Both parts in two passes over the map: what they read and write is what they cost.
        of_x = batch_norm(x, mean, variance, slope, offset, eps=ctx.eps)
        of_x.addcmul_(gradient, scale.to(mean).view(-1, *[1] * (x.ndim - 2)))
        return of_x, of_weight, of_bias, None


def _statistics(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and number of values per channel, over all ranks."""
    channels = x.shape[1]
    # Doubles, because the mean square and the square of the mean may nearly be equal.
    sums = torch.zeros(2 * channels + 1, dtype=torch.float64, device=x.device)
    if len(x):
        found = torch.batch_norm_update_stats(x, None, None, 0.0)
        mean, variance = (each.double() for each in found)
        sums = torch.cat([mean, mean.square().add_(variance), mean.new_ones(1)])
        sums.mul_(x.numel() // channels)
    sums = total(sums)
    mean, square = sums[:-1].div_(sums[-1]).view(2, channels)
    variance = square.sub_(mean.square()).clamp_(min=0)
    kind = torch.promote_types(x.dtype, torch.float32)
    return mean.to(kind), variance.to(kind), sums[-1].to(kind)


def synchronise(model: nn.Module) -> None:
    """Let the batch norms of a model see the batches of all ranks while they train.

    Raises:
        ValueError: Naming a kind of batch norm that is not supported.
    """
    for module in model.modules():
        if not isinstance(module, nn.modules.batchnorm._BatchNorm) or "forward" in vars(module):
            continue
        # timm's class is a batch norm followed by two layers.
        with_activation = hasattr(module, "drop") and hasattr(module, "act")
        if type(module) not in KINDS and not with_activation:
            raise ValueError(
                f"{type(module).__name__} cannot see the batches of other processes; use bn_mode='frozen', "
                "or a single process"
            )
        module.forward = MethodType(_forward, module)  # type: ignore[method-assign]


def _forward(self: Any, x: Tensor) -> Tensor:
    if not self.training or world_size() == 1:
        answered: Tensor = type(self).forward(self, x)
        return answered
    x = _normalised(self, x)
    for name in ("drop", "act"):
        if hasattr(self, name):
            x = getattr(self, name)(x)
    return x


def _normalised(norm: Any, x: Tensor) -> Tensor:
    weight, bias = norm.weight, norm.bias
    if not norm.affine:
        kind = torch.promote_types(x.dtype, torch.float32)
        weight, bias = (
            make(x.shape[1], dtype=kind, device=x.device) for make in (torch.ones, torch.zeros)
        )
    found: Tensor
    found, mean, variance, count = _Normalise.apply(x, weight, bias, norm.eps)
    if norm.track_running_stats:
        norm.num_batches_tracked += 1
        average = norm.momentum is None  # of all batches so far
        step = 1 / float(norm.num_batches_tracked) if average else norm.momentum
        norm.running_mean.lerp_(mean.to(norm.running_mean), step)
        unbiased = variance * count / (count - 1).clamp(min=1)
        norm.running_var.lerp_(unbiased.to(norm.running_var), step)
    return found
