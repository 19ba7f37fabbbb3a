"""Training options that leave results unchanged up to rounding.

Tests check tolerances on small networks: accumulated batches give the weights of whole batches up to
1e-5 (except batch norm, which sees the smaller batches); after a few dozen steps, float16 weights stay
within 0.01 and bfloat16 weights within 0.05 of float32; with ``channels_last``, weights stay within ten
steps of Adam. Rounding under compilation is up to torch and not tested here.
"""

from __future__ import annotations

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from rebll_avalanche.distributed.ranks import total_of
from rebll_avalanche.protocols import Strategy


class GradientPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Accumulates gradients over steps, and scales the loss for float16.

    Avalanche updates the weights after every batch; this plugin removes the gradients of intermediate
    batches, so that their update does nothing. An incomplete group at the end of an epoch is averaged
    over its batches. Place it after all plugins that change the loss or the gradients; plugins that
    clip gradients right before the update get averaged, unscaled ones.

    Args:
        accumulate: Steps whose gradients are averaged per weight update.
        scaled: Scale the loss so that small gradients do not underflow in float16.
        device: Device type for the scaler.
    """

    def __init__(self, *, accumulate: int = 1, scaled: bool = False, device: str = "cpu") -> None:
        super().__init__()
        self.accumulate = accumulate
        self.scaler = torch.amp.GradScaler(device, enabled=scaled)
        self._held: dict[int, Tensor] = {}
        self._steps = self._images = 0
        self._loss = torch.zeros(())
        self._waiting = False

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Scale the loss for the backward pass only."""
        self._loss = strategy.loss
        strategy.loss = self.scaler.scale(strategy.loss)

    def after_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Hold back the gradients, or set them to the average of a complete group."""
        strategy.loss = self._loss  # unscaled, for logging
        self._waiting = False
        parameters = [p for group in strategy.optimizer.param_groups for p in group["params"]]
        if self.accumulate > 1:
            self._add(parameters, total_of(len(strategy.mb_x)))
            last = strategy.clock.train_epoch_iterations + 1 == len(strategy.dataloader)
            self._waiting = self._steps < self.accumulate and not last
            if self._waiting:
                return
            self._release(parameters)
        if self.scaler.is_enabled():
            self.scaler.unscale_(strategy.optimizer)

    def before_update(self, strategy: Strategy, **kwargs: Any) -> None:
        """Let the scaler, if there is one, make the step."""
        if self.scaler.is_enabled() and not self._waiting:
            # The scaler steps, or skips the step if a gradient overflowed; Avalanche's own step, which
            # follows, must do nothing.
            self.scaler.step(strategy.optimizer)
            self.scaler.update()
            strategy.optimizer.zero_grad(set_to_none=True)

    def _add(self, parameters: list[torch.nn.Parameter], images: int) -> None:
        """Move the gradients to the accumulated sum, weighted by the number of images."""
        self._steps += 1
        self._images += images
        for parameter in parameters:
            if parameter.grad is not None:
                weighted = parameter.grad.mul_(images)
                held = self._held.get(id(parameter))
                self._held[id(parameter)] = weighted if held is None else held.add_(weighted)
                parameter.grad = None

    def _release(self, parameters: list[torch.nn.Parameter]) -> None:
        for parameter in parameters:
            held = self._held.pop(id(parameter), None)
            parameter.grad = None if held is None else held.div_(self._images)
        self._steps = self._images = 0

    def state_dict(self) -> dict[str, Any]:
        """The loss scale; no gradients are held back at the end of an epoch."""
        return dict(self.scaler.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        if state:
            self.scaler.load_state_dict(state)


class ChannelsLastPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Keeps images and kernels in the memory layout ``channels_last``."""

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Convert the kernels."""
        strategy.model.to(memory_format=torch.channels_last)

    def before_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Convert a training batch."""
        strategy.mbatch[0] = _channels_last(strategy.mbatch[0])

    def before_eval_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Convert an evaluation batch."""
        strategy.mbatch[0] = _channels_last(strategy.mbatch[0])


def _channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last) if images.ndim == 4 else images
