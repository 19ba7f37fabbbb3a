"""Batch norm over the batch of all ranks; torch's own does so on GPUs only."""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from rebll_avalanche.distributed.ranks import total, world_size

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class _Total(torch.autograd.Function):
    """The sum over ranks; every rank's loss depends on it, so the gradients are summed as well."""

    @staticmethod
    def forward(_: Any, value: Tensor) -> Tensor:
        return total(value)

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return total(gradient.contiguous())


def synchronise(model: nn.Module) -> None:
    """Let the batch norms of a model see the batches of all ranks while they train.

    Raises:
        ValueError: Naming a kind of batch norm that is not known here.
    """
    for module in model.modules():
        if not isinstance(module, nn.modules.batchnorm._BatchNorm) or "forward" in vars(module):
            continue
        # timm's is a batch norm with two layers behind it.
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
    axes = [axis for axis in range(x.ndim) if axis != 1]
    shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    # The number of values travels with their sum: small messages cost as much as there are of them.
    mine = wide.new_tensor([x.numel() // x.shape[1]])
    sums = _Total.apply(torch.cat([wide.sum(axes), mine]))
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centred = wide - mean.view(shape)
    variance = _Total.apply(centred.square().sum(axes)) / count
    if norm.track_running_stats:
        with torch.no_grad():
            norm.num_batches_tracked += 1
            average = norm.momentum is None  # of all batches so far
            step = 1 / float(norm.num_batches_tracked) if average else norm.momentum
            norm.running_mean.lerp_(mean.to(norm.running_mean), step)
            unbiased = variance * count / (count - 1).clamp(min=1)
            norm.running_var.lerp_(unbiased.to(norm.running_var), step)
    x = (centred * (variance + norm.eps).rsqrt().view(shape)).to(x.dtype)
    return x * norm.weight.view(shape) + norm.bias.view(shape) if norm.affine else x
