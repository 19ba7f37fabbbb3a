"""KRT: pseudo-labels for old classes, and distillation of class tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, logsigmoid

from rebll_avalanche.arguments import check_number
from rebll_avalanche.labels import annotated, label_matrix, seen_columns, where_unknown
from rebll_avalanche.memory import Memory
from rebll_avalanche.memory.sampling import PolicyName, SamplingPolicy
from rebll_avalanche.models.cross_attention import GrowingCrossAttention
from rebll_avalanche.models.stages import OutputTap
from rebll_avalanche.plugins.criterion import check_steerable, install_criterion, restore_criterion
from rebll_avalanche.plugins.networks import part_of
from rebll_avalanche.plugins.options import check_not_negative, check_positive
from rebll_avalanche.plugins.teacher import TaughtPlugin
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import annotated_classes, class_range


def asl_loss(
    logits: Tensor, targets: Tensor, *, exponent: float = 4.0, margin: float = 0.05
) -> Tensor:
    r"""The asymmetric loss that KRT trains with, per label; zero where the target is NaN.

    .. math:: -y \log p - (1 - y)\, p_m^{\gamma} \log(1 - p_m), \quad p_m = \max(p - m, 0)

    Negatives below the margin ``m`` cost nothing. No gradient flows through the weight.
    """
    known = annotated(targets)
    logits = torch.where(known, logits.float(), 0.0)
    labels = torch.where(known, targets.float(), 0.0)
    shifted = (logits.sigmoid() - margin).clamp(min=0)
    negative = shifted.detach().pow(exponent) * torch.log1p(-shifted)
    return torch.where(known, -labels * logsigmoid(logits) - (1 - labels) * negative, 0.0)


def pseudo_label_threshold(probability: Tensor, labels_per_image: float) -> float:
    """The probability above which images have ``labels_per_image`` labels on average.

    It is the k-th largest probability, with k the total number of labels, so no iterative search is
    needed.

    >>> pseudo_label_threshold(torch.tensor([[0.9, 0.2], [0.6, 0.4]]), labels_per_image=1.0)
    0.4000000059604645
    """
    wanted = round(labels_per_image * len(probability))
    if wanted >= probability.numel():
        return 0.0
    ranked = probability.flatten().sort(descending=True).values
    return float(ranked[wanted])


@dataclass(kw_only=True, eq=False)
class KRTPlugin(TaughtPlugin):
    r"""Trains with :math:`L_{asl} + \lambda \sqrt{n / n_t}\, (1 - \cos(e^{old}, e))`.

    L_asl covers all seen classes: annotated ones with their labels, other earlier ones with
    pseudo-labels, 1 if the previous model's probability is above a threshold, else 0. The threshold is
    set at the start of an experience, so that images get the number of labels expected from the share
    of classes already seen. The second term keeps the embeddings of old experiences unchanged; ``n``
    counts the seen classes and ``n_t`` those annotated in this experience.

    Memory images keep their original labels. Unknown old classes get pseudo-labels like in other
    images; stored images are not labelled for later classes.

    Args:
        lambda_token: ``lambda``, the weight of token distillation, relative to an L_asl summed over
            batch and classes.
        labels_per_image: Average labels per image over all classes of the benchmark: 1.4 for VOC, 2.9
            for COCO.
        exponent: Exponent of the asymmetric loss.
        margin: Margin of the asymmetric loss.
        mem_size: Number of images kept for replay.
        batch_size_mem: Memory images per step (fewer if memory holds fewer).
        policy: Which images stay in memory.
    """

    stored = ("teacher", "memory", "threshold")

    lambda_token: float = 80.0
    labels_per_image: float = 1.4
    exponent: float = 4.0
    margin: float = 0.05
    mem_size: int = 0
    batch_size_mem: int = 64
    policy: PolicyName | SamplingPolicy = "reservoir"

    def __post_init__(self) -> None:
        super().__init__()
        check_not_negative(lambda_token=self.lambda_token, exponent=self.exponent)
        check_number("batch_size_mem", self.batch_size_mem, 1, whole=True)
        check_not_negative(margin=self.margin)
        if self.margin >= 1:
            raise ValueError(f"margin must be at least 0 and below 1, got {self.margin}")
        check_positive(labels_per_image=self.labels_per_image)
        self.memory = Memory(self.mem_size, self.policy)
        self.terms = LossTerms()
        self.threshold = 0.5
        self._tap = OutputTap()
        self._embeddings: Tensor | None = None
        self._seen_classes = 0
        self._token_weight = 0.0

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the network and share one teacher with the other plugins."""
        check_steerable(strategy, self)
        _attention_head(strategy.model)
        super().before_training(strategy, **kwargs)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Activate the teacher, set its pseudo-label threshold, install the asymmetric loss."""
        super().before_training_exp(strategy, **kwargs)
        self.memory.bind(strategy.experience)
        _, self._seen_classes = class_range(strategy.experience)
        size = max(len(annotated_classes(strategy.experience)), 1)
        self._token_weight = self.lambda_token * math.sqrt(self._seen_classes / size)
        if self.distils:
            self.threshold = self._find_threshold(strategy)
        install_criterion(strategy, self._base_loss)

    def _find_threshold(self, strategy: Strategy) -> float:
        found = []
        for batch in strategy.dataloader:
            logits = self.teacher.logits(batch[0].to(strategy.device))
            found.append(logits[:, : self.old_classes].float().sigmoid().cpu())
        share = self.old_classes / label_matrix(strategy.experience.dataset).shape[1]
        return pseudo_label_threshold(torch.cat(found), self.labels_per_image * share)

    def _base_loss(self, logits: Tensor, targets: Tensor, reduction: str) -> Tensor:
        loss = self._asl(logits, seen_columns(logits, targets))
        return loss if reduction == "none" else loss.sum()

    def _asl(self, logits: Tensor, targets: Tensor) -> Tensor:
        return asl_loss(logits, targets, exponent=self.exponent, margin=self.margin)

    def before_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Hook the head's embeddings."""
        self._tap.open(_attention_head(strategy.model).attention)

    def after_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Record the embeddings of this batch."""
        (self._embeddings,) = self._tap.close()

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add the pseudo-labelled columns, the token distillation and replay."""
        embeddings, self._embeddings = self._embeddings, None
        if not self.distils or embeddings is None:
            return
        moved = self._add_pseudo_labels(
            strategy, strategy.mb_x, strategy.mb_y, strategy.mb_output, embeddings
        )
        if len(self.memory):
            images, targets = self.memory.draw(self.batch_size_mem)
            images, targets = images.to(strategy.device), targets.to(strategy.device)
            logits, embeddings = _forward(strategy.model, images)
            loss = self._asl(logits, targets[:, : self._seen_classes]).sum()
            self.terms.record("replay", loss)
            strategy.loss += loss
            of_memory = self._add_pseudo_labels(strategy, images, targets, logits, embeddings)
            moved = torch.cat([moved, of_memory])
        self.terms.record("token", moved.mean())
        strategy.loss += self._token_weight * moved.mean()

    def _add_pseudo_labels(
        self,
        strategy: Strategy,
        images: Tensor,
        targets: Tensor,
        logits: Tensor,
        embeddings: Tensor,
    ) -> Tensor:
        """Add the loss of the old columns; return how far each image's embeddings have moved."""
        with torch.no_grad():
            teacher_logits, teacher_embeddings = _forward(self.teacher.model, images)
        old = slice(0, self.old_classes)
        pseudo = (teacher_logits[:, old].float().sigmoid() > self.threshold).float()
        pseudo = self._asl(logits[:, old], where_unknown(pseudo, targets)).sum()
        self.terms.record("pseudo", pseudo)
        kept = embeddings[:, : teacher_embeddings.shape[1]].flatten(1).float()
        strategy.loss += pseudo
        return 1 - cosine_similarity(kept, teacher_embeddings.flatten(1).float())

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Store images, and copy the model, the teacher of the next experience."""
        if self.memory.mem_size:
            self.memory.update(strategy.experience, strategy)
        super().after_training_exp(strategy, **kwargs)

    def after_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Restore the strategy's own criterion."""
        restore_criterion(strategy)


def _forward(model: Any, images: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and embeddings in one pass."""
    tap = OutputTap()
    tap.open(_attention_head(model).attention)
    logits: Tensor = model(images)
    (embeddings,) = tap.close()
    return logits, embeddings


def _attention_head(model: Any) -> GrowingCrossAttention:
    way_out = "build_model(..., head='cross_attention')"
    return part_of(model, "head", GrowingCrossAttention, "KRT distils tokens", way_out)
