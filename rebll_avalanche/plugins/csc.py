"""CSC: distillation with an entropy term that rewards uncertainty about old classes."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rebll_avalanche.arguments import check_number
from rebll_avalanche.labels import annotated
from rebll_avalanche.plugins.akd import AKDPlugin
from rebll_avalanche.plugins.options import Reduction, check_not_negative
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.words import check_choice

EntropyClasses = Literal["old", "seen"]


def entropy_penalty(
    logits: Tensor, reduction: str = "class_sum", *, ignore: Tensor | None = None
) -> Tensor:
    r"""The negative entropy :math:`p_c \log p_c`, averaged over images.

    As in CSC, only the positive half of the binary entropy counts.

    Args:
        logits: ``[images, classes]``.
        reduction: ``"class_sum"``, or ``"mean"`` over classes.
        ignore: Boolean ``[images, classes]``: entries to leave out.
    """
    penalty = logits.sigmoid() * logsigmoid(logits)
    counted = torch.ones_like(penalty, dtype=torch.bool) if ignore is None else ~ignore
    penalty = torch.where(counted, penalty, 0.0)
    total = counted.sum().clamp(min=1) if reduction == "mean" else max(len(penalty), 1)
    return penalty.sum() / total


class CSCPlugin(AKDPlugin):
    r"""Trains with :math:`w L_{bce} + (1 - w) L_{kd} + \beta \sum_c p_c \log p_c`.

    The last term counters overconfidence on old classes, whose negatives do not appear again and which
    therefore cause false positives. The first experience uses plain L_bce. With
    ``build_model(..., head="gcn")`` this is CSC; it works on any network.

    Args:
        classification_weight: ``w``, the weight of L_bce once there is a teacher; L_kd gets the rest.
        entropy_weight: ``beta``, the weight of the entropy.
        entropy_classes: ``"old"`` as in the paper, or ``"seen"`` as in its released code.
        entropy_reduction: ``"class_sum"`` as printed, or ``"mean"`` over classes, like the other two
            terms: with many classes, a sum outweighs the distillation.
    """

    def __init__(
        self,
        *,
        classification_weight: float = 0.15,
        entropy_weight: float = 0.04,
        entropy_classes: EntropyClasses = "old",
        entropy_reduction: Reduction = "class_sum",
    ) -> None:
        check_number("classification_weight", classification_weight, 0, 1)
        super().__init__(alpha=0.0, lambda_akd=classification_weight)
        check_choice("entropy_classes", entropy_classes, get_args(EntropyClasses))
        check_choice("entropy_reduction", entropy_reduction, get_args(Reduction))
        check_not_negative(entropy_weight=entropy_weight)
        self.entropy_weight = entropy_weight
        self.entropy_classes = entropy_classes
        self.entropy_reduction = entropy_reduction

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add distillation and entropy."""
        super().before_backward(strategy, **kwargs)
        if not self.distils:
            return
        logits = strategy.mb_output
        # Annotated old classes are left out: their labels determine the confidence.
        old = slice(0, self.old_classes)
        labelled = torch.zeros_like(logits, dtype=torch.bool)
        labelled[:, old] = annotated(strategy.mb_y[:, old])
        if self.entropy_classes == "old":
            logits, labelled = logits[:, old], labelled[:, old]
        loss = entropy_penalty(logits.float(), self.entropy_reduction, ignore=labelled)
        self.terms.record("entropy", loss)
        strategy.loss += self.entropy_weight * loss
