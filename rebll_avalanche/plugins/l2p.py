"""L2P: learns prompts from the labels and their keys from the images that select them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor

from rebll_avalanche.models.prompts import PromptedViT, PromptPool
from rebll_avalanche.models.stages import OutputTap
from rebll_avalanche.plugins.networks import check_learnable, part_of
from rebll_avalanche.plugins.options import check_not_negative
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Strategy


def prompt_pool(strategy: Strategy) -> PromptPool:
    """The prompt pool of a strategy's model."""
    way_out = "build_model('vit_base_patch16_224', head='l2p')"
    purpose = "this method learns prompts"
    return part_of(strategy.model, "backbone", PromptedViT, purpose, way_out).pool


@dataclass(kw_only=True, eq=False)
class L2PPlugin(SupervisedPlugin):
    r"""Adds :math:`-\lambda \sum_k \cos(key_k, query)` over the prompts selected by an image.

    The base loss is the strategy's own: a criterion that ignores unknown labels, such as
    ``PartialLabelBCE``, is the binary cross-entropy on the experience's columns.

    Args:
        pull_weight: ``lambda``: how strongly keys are pulled towards the images that select them.
        grad_clip: Maximum norm of the gradient; 0 disables clipping.
    """

    pull_weight: float = 0.5
    grad_clip: float = 1.0

    def __post_init__(self) -> None:
        super().__init__()
        check_not_negative(pull_weight=self.pull_weight, grad_clip=self.grad_clip)
        self.terms = LossTerms()
        self._tap = OutputTap()
        self._cosine: Tensor | None = None

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check that the network has prompts and that the criterion accepts the labels."""
        prompt_pool(strategy)
        check_learnable(strategy)

    def before_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Hook the prompt pool."""
        self._tap.open(prompt_pool(strategy))

    def after_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Record how close the selected keys were."""
        ((_, self._cosine),) = self._tap.close()

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Pull the selected keys towards the images."""
        if self._cosine is None:
            return
        loss = -self._cosine.sum(dim=1).mean()
        self._cosine = None
        self.terms.record("pull", loss)
        strategy.loss += self.pull_weight * loss

    def before_update(self, strategy: Strategy, **kwargs: Any) -> None:
        """Clip the gradient."""
        if self.grad_clip:
            torch.nn.utils.clip_grad_norm_(strategy.model.parameters(), self.grad_clip)
