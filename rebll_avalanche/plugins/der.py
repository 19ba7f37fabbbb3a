"""DER++ for multi-label streams: stored logits and stored labels are both replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor
from torch.nn.functional import pad

from rebll_avalanche.arguments import check_number
from rebll_avalanche.labels import UNKNOWN, annotated, seen_columns
from rebll_avalanche.losses import bce_loss
from rebll_avalanche.memory import Memory
from rebll_avalanche.memory.sampling import PolicyName, SamplingPolicy
from rebll_avalanche.plugins.networks import check_learnable
from rebll_avalanche.plugins.options import check_not_negative
from rebll_avalanche.plugins.teacher import forward_frozen, whole_pictures
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.stateful import Stateful


def stored_logit_loss(logits: Tensor, stored: Tensor) -> Tensor:
    """Mean squared difference over the columns that existed when ``stored`` was captured.

    Args:
        logits: ``[batch, classes]`` of the current model.
        stored: ``[batch, all classes]``; NaN for columns that the model did not have yet.
    """
    stored = seen_columns(logits, stored)
    known = annotated(stored)
    difference = torch.where(known, logits - stored, 0.0)
    return difference.square().sum() / known.sum().clamp(min=1)


@dataclass(kw_only=True, eq=False)
class DERPlusPlusPlugin(Stateful, SupervisedPlugin):
    r"""DER++, dark experience replay with labels, for growing heads and partial labels.

    .. math:: L = L_{bce}(C^t) + \alpha \, \lVert z(x') - z' \rVert^2 + \beta \, L_{bce}(x'', y'')

    ``x'`` and ``x''`` are two independent draws from memory. The squared difference is averaged over the
    columns that existed when ``z'`` was captured, the cross-entropy over the annotated labels of
    ``x''``. Images enter memory when their experience ends, with the trained model's logits for the
    unaugmented image; the original, for online streams, captures them during training.

    Args:
        mem_size: Number of images kept.
        batch_size_mem: Images per draw (fewer if memory holds fewer).
        alpha: Weight of the stored logits.
        beta: Weight of the stored labels; 0 is DER.
        policy: Which images stay in memory.
    """

    stored = ("memory", "logits")

    mem_size: int = 40
    batch_size_mem: int = 64
    alpha: float = 0.5
    beta: float = 0.5
    policy: PolicyName | SamplingPolicy = "reservoir"

    def __post_init__(self) -> None:
        super().__init__()
        check_not_negative(alpha=self.alpha, beta=self.beta)
        check_number("batch_size_mem", self.batch_size_mem, 1, whole=True)
        self.memory = Memory(self.mem_size, self.policy)
        self.logits = torch.empty(0, 0)
        self.terms = LossTerms()

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the criterion, and bind memory to the stream."""
        check_learnable(strategy)
        self.memory.bind(strategy.experience)
        more = self.memory.labels.shape[1] - self.logits.shape[1]
        if len(self.memory) and more:
            self.logits = pad(self.logits, (0, more), value=UNKNOWN)

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Replay two batches of memory."""
        if not len(self.memory):
            return
        rows = torch.randperm(len(self.memory))[: self.batch_size_mem]
        images = self.memory.images(rows, augment=True).to(strategy.device)
        logit_loss = stored_logit_loss(
            strategy.model(images), self.logits[rows].to(strategy.device)
        )
        images, labels = self.memory.draw(self.batch_size_mem)
        logits = strategy.model(images.to(strategy.device))
        label_loss = bce_loss(logits, seen_columns(logits, labels.to(strategy.device)))
        self.terms.record("logits", logit_loss)
        self.terms.record("labels", label_loss)
        strategy.loss += self.alpha * logit_loss + self.beta * label_loss

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Sample the experience into memory and capture the logits of added images."""
        if not self.memory.mem_size:
            return
        before = len(self.memory)
        chosen = self.memory.update(strategy.experience, strategy)
        logits = torch.full(self.memory.labels.shape, UNKNOWN)
        stayed = chosen < before
        if before:
            logits[stayed] = self.logits[chosen[stayed]]
        was_training = strategy.model.training
        strategy.model.eval()
        for part in (~stayed).nonzero().flatten().split(strategy.eval_mb_size):
            if len(part):
                images = self.memory.images(part, augment=False).to(strategy.device)
                images = whole_pictures(strategy.model, images)
                captured = forward_frozen(strategy.model, images).float().cpu()
                logits[part, : captured.shape[1]] = captured
        strategy.model.train(was_training)
        self.logits = logits
