"""The paper's equations as pure functions of logits.

Everything is one asymmetric binary cross-entropy in three uses::

    -y (1 - p)^g log p  -  (1 - y) p^b log(1 - p),      p = sigmoid(logit)

====== ===================== ========================== ============ ============
loss   targets y             classes                    g            b
====== ===================== ========================== ============ ============
L_bce  labels                of this experience         0            0
L_kd   teacher probabilities of earlier experiences     0            0
L_cls  labels                of this experience         alpha log n  0
L_akd  teacher probabilities of earlier experiences     alpha log n  0
L_er   labels of memory      of earlier experiences     0            beta log n
====== ===================== ========================== ============ ============

with ``n`` the number of classes seen so far, the current ones included. Callers pass the columns of
their class set; entries whose target is NaN are ignored.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rebll_avalanche.arguments import check_number, check_tensor
from rebll_avalanche.distributed.ranks import total, total_of
from rebll_avalanche.words import check_choice

REDUCTIONS = ("mean", "sum", "none", "class_sum")


def probability(logits: Tensor) -> Tensor:
    """``sigmoid(logits)``, in float32 at least: in half precision, scores near 1 would tie.

    >>> probability(torch.tensor([0.0, 20.0], dtype=torch.bfloat16)).dtype
    torch.float32
    """
    check_tensor("logits", logits)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).sigmoid()


def adaptive_exponent(factor: float, seen_classes: int) -> float:
    """The decay exponent ``factor * log(seen_classes)`` of equations (4), (6) and (8).

    >>> round(adaptive_exponent(1.2, 20), 3)
    3.595
    """
    check_number("factor", factor)
    check_number("seen_classes", seen_classes, 1, whole=True)
    return factor * math.log(seen_classes)


def asymmetric_bce(
    logits: Tensor,
    targets: Tensor,
    *,
    positive_exponent: float = 0.0,
    negative_exponent: float = 0.0,
    detach_weight: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy whose positive or negative part is down-weighted by the prediction itself.

    Args:
        logits: ``[batch, classes]``.
        targets: Probabilities or labels of the same shape; NaN entries are ignored.
        positive_exponent: ``g``: the positive part is weighted by ``(1 - p)^g``.
        negative_exponent: ``b``: the negative part is weighted by ``p^b``.
        detach_weight: Stop the gradient through these weights.
        reduction: ``"mean"`` over the known entries, ``"sum"`` over all, ``"class_sum"`` the sum over
            classes averaged over images (as printed in the paper), ``"none"`` the matrix itself.

    Returns:
        A scalar, or the ``[batch, classes]`` matrix for ``"none"``, in at least float32.

    >>> logits, labels = torch.tensor([[2.0, 2.0]]), torch.tensor([[1.0, 0.0]])
    >>> asymmetric_bce(logits, labels, reduction="none")  # binary cross-entropy
    tensor([[0.1269, 2.1269]])
    >>> asymmetric_bce(logits, labels, positive_exponent=1.0, reduction="none")  # times 1 - 0.88
    tensor([[0.0151, 2.1269]])
    """
    check_tensor("logits", logits)
    check_tensor("targets", targets)
    check_number("positive_exponent", positive_exponent, -1e9, 1e9)
    check_number("negative_exponent", negative_exponent, -1e9, 1e9)
    if logits.shape != targets.shape:
        raise ValueError(
            f"logits {tuple(logits.shape)} and targets {tuple(targets.shape)} differ in shape"
        )
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    known = ~torch.isnan(targets)
    # Replacing before any arithmetic, rather than masking after it, keeps the gradient exactly zero.
    logits = torch.where(known, logits, 0.0)
    targets = torch.where(known, targets.to(logits.dtype), 0.0)
    log_positive, log_negative = logsigmoid(logits), logsigmoid(-logits)
    positive = log_positive * _power(log_negative, positive_exponent, detach_weight)
    negative = log_negative * _power(log_positive, negative_exponent, detach_weight)
    loss = torch.where(known, -targets * positive - (1 - targets) * negative, 0.0)
    return _reduce(loss, known, reduction)


def _power(log_base: Tensor, exponent: float, detach: bool) -> Tensor | float:
    """``base ** exponent`` from the logarithm of the base, finite also for bases near 0 and 1."""
    if exponent == 0:
        return 1.0
    return (exponent * (log_base.detach() if detach else log_base)).exp()


def _reduce(loss: Tensor, known: Tensor, reduction: str) -> Tensor:
    """A sum over what this process has, divided by a count over what all of its job have."""
    check_choice("reduction", reduction, REDUCTIONS)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return loss.sum() / total(known.sum()).clamp(min=1)
    return loss.sum() / max(total_of(len(loss)), 1)  # class_sum


def bce_loss(logits: Tensor, targets: Tensor, *, reduction: str = "mean") -> Tensor:
    """Equation (1), L_bce; with teacher probabilities as targets, equation (2), L_kd.

    >>> round(bce_loss(torch.zeros(1, 2), torch.tensor([[1.0, torch.nan]])).item(), 4)
    0.6931
    """
    return asymmetric_bce(logits, targets, reduction=reduction)


def cls_loss(logits: Tensor, targets: Tensor, *, exponent: float, **options: Any) -> Tensor:
    """Equations (3, 4), L_cls: the positive part is down-weighted.

    Args:
        logits: Of the current classes.
        targets: Their labels; NaN where not annotated.
        exponent: ``adaptive_exponent(alpha, seen)``, or a constant for the fixed variant.
        **options: ``detach_weight`` and ``reduction`` of :func:`asymmetric_bce`.

    >>> logits, labels = torch.tensor([[2.0, -2.0]]), torch.tensor([[1.0, 0.0]])
    >>> cls_loss(logits, labels, exponent=adaptive_exponent(1.2, 20)) < bce_loss(logits, labels)
    tensor(True)
    """
    return asymmetric_bce(logits, targets, positive_exponent=exponent, **options)


def akd_loss(
    logits: Tensor, teacher_probability: Tensor, *, exponent: float, **options: Any
) -> Tensor:
    """Equations (5, 6), L_akd: L_cls on earlier classes, with the previous model's soft labels.

    >>> teacher, logits = torch.tensor([[0.9, 0.1]]), torch.tensor([[2.0, -2.0]])
    >>> akd_loss(logits, teacher, exponent=adaptive_exponent(1.2, 20)) < bce_loss(logits, teacher)
    tensor(True)
    """
    return cls_loss(logits, teacher_probability, exponent=exponent, **options)


def er_loss(logits: Tensor, targets: Tensor, *, exponent: float, **options: Any) -> Tensor:
    """Equations (7, 8), L_er: the negative part is down-weighted.

    Args:
        logits: Of the earlier classes, for memory images.
        targets: Their completed labels; NaN where unknown.
        exponent: ``adaptive_exponent(beta, seen)``, or a constant for the fixed variant.
        **options: ``detach_weight`` and ``reduction`` of :func:`asymmetric_bce`.

    >>> logits, labels = torch.tensor([[2.0, -2.0]]), torch.tensor([[1.0, 0.0]])
    >>> er_loss(logits, labels, exponent=adaptive_exponent(0.7, 20)) < bce_loss(logits, labels)
    tensor(True)
    """
    return asymmetric_bce(logits, targets, negative_exponent=exponent, **options)


def posterior_from_score(score: Tensor, exponent: float, *, detach_weight: bool = False) -> Tensor:
    """The posterior for which the probability ``score`` minimises the asymmetric loss.

    L_cls and L_akd are not proper scoring rules. For a posterior ``q`` they are minimal where
    ``q / (1 - q) = 1 / ((1 - p)^g ((1 - p) / p - g log p))``, which for confident scores gives
    ``p < q``. Distilling ``p`` itself therefore shrinks scores further at every experience; distilling
    this ``q`` reproduces ``p``. With ``detach_weight`` the term ``g log p`` is absent.

    >>> posterior_from_score(torch.tensor([0.3]), exponent=0.0).item() == torch.tensor(0.3).item()
    True
    >>> round(posterior_from_score(torch.tensor([0.5]), exponent=3.595).item(), 2)
    0.78
    """
    check_tensor("score", score)
    if not score.is_floating_point():
        raise TypeError(
            f"score must be floating point, got {score.dtype}; convert with score.float()"
        )
    check_number("exponent", exponent)
    if exponent == 0:
        return score
    limits = torch.finfo(score.dtype)
    score = score.clamp(limits.tiny, 1 - limits.eps)
    complement = 1 - score
    through_weight = 0.0 if detach_weight else exponent * score.log()
    negative_odds = complement.pow(exponent) * (complement / score - through_weight)
    return 1 / (1 + negative_odds)
