"""Multi-label metrics as pure functions of scores and ground truth.

``scores`` are ``[samples, classes]`` and finite, usually probabilities; ``truth`` has the same shape
with 1 present, 0 absent and NaN not annotated, which is left out of every count. Results are fractions.

All metrics follow from the numbers of annotated samples and of positives that score at least some
value. So each class is sorted once and every metric is looked up in that order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from rebll_avalanche.arguments import check_number, check_tensor
from rebll_avalanche.metrics.ranking import Ranking, num_below
from rebll_avalanche.metrics.scores import (
    NAN,
    MultiLabelScores,
    ThresholdScores,
    mean_over_classes,
)
from rebll_avalanche.words import brief, check_choice

Ties = Literal["sklearn", "lineage"]


def multilabel_scores(
    scores: Tensor,
    truth: Tensor,
    thresholds: Iterable[float] = (0.8, 0.5),
    *,
    ties: Ties = "sklearn",
) -> MultiLabelScores:
    """Compute all metrics of one evaluation from one sort per class.

    Args:
        scores: ``[samples, classes]``, finite.
        truth: The same shape; 1 present, 0 absent, NaN not annotated.
        thresholds: Where scores are cut into decisions.
        ties: See :func:`average_precision`.

    >>> scores = torch.tensor([[0.9, 0.2], [0.6, 0.7], [0.1, 0.9]])
    >>> truth = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, float("nan")]])
    >>> result = multilabel_scores(scores, truth, thresholds=[0.5])
    >>> {name: round(value, 3) for name, value in result.as_dict().items()}  # doctest: +ELLIPSIS
    {'mAP': 0.917, 'CP@0.5': 0.75, 'CR@0.5': 0.75, 'CF1@0.5': 0.75, ... 'FPR@0.5': 0.5}
    """
    check_thresholds(thresholds)
    ranking = Ranking.of(scores, truth)
    return MultiLabelScores(
        average_precision=_average_precision(ranking, ties),
        num_positives=torch.from_numpy(ranking.num_positives),
        num_annotated=torch.from_numpy(ranking.num_annotated),
        at_thresholds=tuple(_decisions(ranking, threshold) for threshold in thresholds),
    )


def average_precision(scores: Tensor, truth: Tensor, *, ties: Ties = "sklearn") -> Tensor:
    """AP of every class in float64, NaN for a class without positives.

    With ``TP(s)`` and ``FP(s)`` the positives and negatives that score at least ``s``::

        AP = mean over positives i of  TP(s_i) / (TP(s_i) + FP(s_i))

    which is the step-wise area under the precision-recall curve.

    Args:
        scores: ``[samples, classes]``, finite.
        truth: The same shape; 1 present, 0 absent, NaN not annotated.
        ties: How equal scores are treated. ``"sklearn"``: they are one point of the curve, as in
            ``sklearn.metrics.average_precision_score``. ``"lineage"``: as in the code shared by the
            multi-label incremental literature: samples are sorted in descending order, the later of
            two equal ones first, and the sum of the precisions at the positives is divided by
            ``#positives + 1e-8``. (That code uses an unstable sort; a stable one is used here so that
            results are reproducible.)

    >>> average_precision(torch.tensor([[0.5], [0.5]]), torch.tensor([[1.0], [0.0]])).tolist()
    [0.5]
    """
    return _average_precision(Ranking.of(scores, truth), ties)


def mean_average_precision(scores: Tensor, truth: Tensor, *, ties: Ties = "sklearn") -> float:
    """mAP, the mean of :func:`average_precision` over the classes that have positives.

    >>> mean_average_precision(torch.tensor([[0.9, 0.1], [0.2, 0.3]]), torch.eye(2))
    1.0
    """
    return mean_over_classes(average_precision(scores, truth, ties=ties))


def decisions(scores: Tensor, truth: Tensor, threshold: float) -> ThresholdScores:
    """Precision, recall, F1 and FPR, per class and together, of ``score > threshold``.

    The threshold is rounded to the type of the scores first, as ``scores > threshold`` does.

    >>> result = decisions(torch.tensor([[0.9], [0.8]]), torch.tensor([[1.0], [1.0]]), 0.8)
    >>> result.class_precision, result.class_recall
    (1.0, 0.5)
    """
    return _decisions(Ranking.of(scores, truth), threshold)


def average_map(history: Sequence[Tensor]) -> float:
    """Average mAP, the mean of the mAP after each step, including the first.

    Args:
        history: Per-class AP after each step; later ones may have more classes.

    >>> average_map([torch.tensor([1.0]), torch.tensor([0.4, 0.6])])
    0.75
    """
    _check_history(history)
    if not history:
        return NAN
    return float(np.mean([mean_over_classes(step) for step in history]))


def forgetting(history: Sequence[Tensor]) -> float:
    """Mean over old classes of the best AP after any earlier step minus the AP now.

    ::

        F_t = mean over old classes c of  max_{u < t} AP_u(c) - AP_t(c)

    Old classes are those with an AP after an earlier step. Negative values mean improvement.

    Args:
        history: Per-class AP after each step; later ones may have more classes.

    Returns:
        The mean forgetting; NaN if there are no old classes.

    >>> round(forgetting([torch.tensor([0.9]), torch.tensor([0.7, 0.6])]), 3)
    0.2
    """
    _check_history(history)
    if len(history) < 2:
        return NAN
    width = min(len(history[-1]), max(len(step) for step in history[:-1]))
    best = torch.full((width,), -torch.inf, dtype=torch.float64)
    for step in history[:-1]:
        known = step[:width].double().nan_to_num(nan=-torch.inf)
        best[: len(known)] = torch.maximum(best[: len(known)], known)
    lost = torch.where(best.isinf(), NAN, best) - history[-1][:width].double()
    return mean_over_classes(lost)


def check_thresholds(thresholds: Iterable[float]) -> None:
    """Refuse what is not a collection of numbers.

    Raises:
        ValueError: Naming the first that is none.
    """
    if isinstance(thresholds, str) or not isinstance(thresholds, Collection):
        raise ValueError(f"thresholds must be a list of numbers, got {brief(thresholds)}")
    for threshold in thresholds:
        check_number("a threshold", threshold)


def _check_history(history: Sequence[Tensor]) -> None:
    if not isinstance(history, list | tuple):
        raise TypeError(f"history must be a list of tensors, got {brief(history)}")
    for number, step in enumerate(history):
        check_tensor(f"history[{number}]", step)
        if step.ndim != 1:
            raise ValueError(
                f"history[{number}] must hold the AP of each class, got shape {tuple(step.shape)}"
            )


def _average_precision(ranking: Ranking, ties: Ties) -> Tensor:
    check_choice("ties", ties, get_args(Ties))
    count = ranking.num_positives
    if ties == "sklearn":
        precisions, whole = _precisions_of_ties_together(ranking), count
    else:
        precisions, whole = _precisions_of_ties_in_order(ranking), count + 1e-8
    values = np.full(len(count), np.nan)
    np.divide(precisions, whole, out=values, where=count > 0)
    return torch.from_numpy(values)


def _precisions_of_ties_together(ranking: Ranking) -> np.ndarray:
    positives, count = ranking.positives, ranking.num_positives[:, None]
    hits = count - num_below(positives, positives)
    retrieved = ranking.ascending.shape[1] - num_below(ranking.ascending, positives)
    real = np.arange(positives.shape[1]) < count
    precision = np.divide(hits, retrieved, out=np.zeros(positives.shape), where=real)
    total: np.ndarray = precision.sum(axis=1)
    return total


def _precisions_of_ties_in_order(ranking: Ranking) -> np.ndarray:
    order = np.argsort(ranking.scores, axis=1, kind="stable")[:, ::-1]
    hit = np.take_along_axis(ranking.positive, order, axis=1)
    precision = hit.cumsum(axis=1) / np.arange(1, hit.shape[1] + 1)
    total: np.ndarray = np.where(hit, precision, 0.0).sum(axis=1)
    return total


def _decisions(ranking: Ranking, threshold: float) -> ThresholdScores:
    check_number("threshold", threshold)
    positives, num_annotated = ranking.num_positives, ranking.num_annotated
    cut = np.full((len(positives), 1), threshold, dtype=ranking.scores.dtype)
    above = ranking.ascending.shape[1] - num_below(ranking.ascending, cut, or_equal=True)[:, 0]
    hits = positives - num_below(ranking.positives, cut, or_equal=True)[:, 0]
    return ThresholdScores(
        threshold=threshold,
        true_positives=torch.from_numpy(hits),
        false_positives=torch.from_numpy(above - hits),
        false_negatives=torch.from_numpy(positives - hits),
        true_negatives=torch.from_numpy(num_annotated - positives - above + hits),
        precision=_ratio(hits, above, num_annotated),
        recall=_ratio(hits, positives, num_annotated),
        f1=_ratio(2 * hits, above + positives, num_annotated),
    )


def _ratio(part: np.ndarray, whole: np.ndarray, num_annotated: np.ndarray) -> Tensor:
    ratio = part / np.maximum(whole, 1)
    return torch.from_numpy(np.where(num_annotated > 0, ratio, np.nan))
