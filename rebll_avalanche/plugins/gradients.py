"""Options of training that leave results as they are, up to rounding.

Tests hold these to tolerances on small networks: accumulated batches give the weights of whole ones up to
1e-5 (batch norm, which sees the smaller batches, apart); after a run of a few dozen steps float16 stays
within 0.01 and bfloat16 within 0.05 of the weights that float32 gives; with ``channels_last`` weights stay
within ten steps of Adam. What compilation does to rounding is torch's affair and not tested here.
"""

from __future__ import annotations

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from rebll_avalanche.protocols import Strategy


class GradientPlugin(SupervisedPlugin):
    """Accumulates gradients over steps, and scales the loss of a network in float16.

    Avalanche updates the weights after every batch; here a batch in between leaves no gradient
    behind, so that its update does nothing. A group that the epoch cuts short is averaged as it is.
    Belongs behind all plugins that change the loss or the gradients; those that look at gradients right
    before the update, to clip them, find averaged and unscaled ones.

    Args:
        accumulate: Steps whose gradients are averaged before the weights change.
        scaled: Scale the loss so that small gradients survive float16.
        device: The kind of device, for the scaler.
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
        """Scale the loss for the backward pass alone."""
        self._loss = strategy.loss
        strategy.loss = self.scaler.scale(strategy.loss)

    def after_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Hold gradients back, or let the average of a whole group through."""
        strategy.loss = self._loss  # as it was, for whoever logs it
        self._waiting = False
        parameters = [p for group in strategy.optimizer.param_groups for p in group["params"]]
        if self.accumulate > 1:
            self._add(parameters, len(strategy.mb_x))
            last = strategy.clock.train_epoch_iterations + 1 == len(strategy.dataloader)
            self._waiting = self._steps < self.accumulate and not last
            if self._waiting:
                return
            self._release(parameters)
        if self.scaler.is_enabled():
            self.scaler.unscale_(strategy.optimizer)

    def before_update(self, strategy: Strategy, **kwargs: Any) -> None:
        """Let the scaler make the step, if there is one."""
        if self.scaler.is_enabled() and not self._waiting:
            # The scaler steps, or refuses to when a gradient overflowed; Avalanche's own step comes
            # next and must find nothing to do.
            self.scaler.step(strategy.optimizer)
            self.scaler.update()
            strategy.optimizer.zero_grad(set_to_none=True)

    def _add(self, parameters: list[torch.nn.Parameter], images: int) -> None:
        """Take the gradients away, each batch counting as much as it has images."""
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
        """The scale; epochs end with nothing held back."""
        return dict(self.scaler.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        if state:
            self.scaler.load_state_dict(state)


class ChannelsLastPlugin(SupervisedPlugin):
    """Keeps images and kernels in the memory layout ``channels_last``."""

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Lay out the kernels."""
        strategy.model.to(memory_format=torch.channels_last)

    def before_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Lay out a training batch."""
        strategy.mbatch[0] = _channels_last(strategy.mbatch[0])

    def before_eval_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Lay out an evaluation batch."""
        strategy.mbatch[0] = _channels_last(strategy.mbatch[0])


def _channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last) if images.ndim == 4 else images
