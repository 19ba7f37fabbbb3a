"""Avalanche's A-GEM, able to resume from a checkpoint."""

from __future__ import annotations

from typing import Any

import torch
from avalanche.training.plugins import AGEMPlugin

from rebll_avalanche.arguments import check_number
from rebll_avalanche.protocols import Strategy


class DrawingAGEMPlugin(AGEMPlugin):
    """Avalanche's A-GEM with a reference batch drawn at random for every step.

    Avalanche cycles through the memory in a fixed order with an iterator whose position no checkpoint
    can hold. Drawing from torch's generator follows the method's description, and only the images need
    to be saved.

    Args:
        mem_size: Images kept of each experience;
            :class:`~rebll_avalanche.plugins.buffer.SharedBudgetPlugin` makes it a total budget.
        sample_size: Images per reference batch, divided equally among experiences.
    """

    def __init__(self, mem_size: int = 40, sample_size: int = 64) -> None:
        check_number("mem_size", mem_size, 1, whole=True)
        check_number("sample_size", sample_size, 1, whole=True)
        super().__init__(mem_size, sample_size)

    def sample_from_memory(self) -> Any:
        """Inputs and labels of a reference batch."""
        share = max(1, self.sample_size // len(self.buffers))
        drawn = [
            buffer[index]
            for buffer in self.buffers
            for index in torch.randperm(len(buffer))[:share].tolist()
        ]
        return self.buffers[0].collate_fn(drawn)

    def after_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Project the gradient, unless the gradient on memory vanishes."""
        reference = self.reference_gradients
        if torch.dot(reference, reference) >= torch.finfo(reference.dtype).tiny:
            super().after_backward(strategy, **kwargs)

    def update_memory(self, dataset: Any, **kwargs: Any) -> None:
        """Keep some images of an experience; no worker processes, since no data loader is used."""
        super().update_memory(dataset)
