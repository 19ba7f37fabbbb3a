"""Quality per class, and the choice of thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rebll_avalanche.labels import annotated
from rebll_avalanche.metrics.functional import average_precision

# Threshold of a class without positives or negatives.
EVEN = 0.5
# A class with this many positives weighs its own threshold as much as that of all classes together.
PRIOR_POSITIVES = 10
# The same for scores of training pictures, where only the number of predictions is matched.
LEARNED_PRIOR = 1


@dataclass(frozen=True)
class ClassQuality:
    """Quality of one class.

    Attributes:
        name: The class.
        positives: Pictures that have it, among those annotated for it.
        negatives: Pictures that do not.
        average_precision: NaN if there are no positives or no negatives.
        precision: At the threshold; NaN if no score is above it.
        recall: At the threshold; NaN without positives.
        threshold: The probability above which the class is predicted.
    """

    name: str
    positives: int
    negatives: int
    average_precision: float
    precision: float
    recall: float
    threshold: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 without true positives, NaN without positives."""
        if not self.positives:
            return float("nan")
        hits = self.recall * self.positives
        return 2 * self.precision * self.recall / (self.precision + self.recall) if hits else 0.0


def class_qualities(
    names: Sequence[str], probabilities: Tensor, labels: Tensor, thresholds: Tensor
) -> list[ClassQuality]:
    """The quality of every class that is annotated in at least one picture.

    Args:
        names: One per column.
        probabilities: ``[pictures, classes]``.
        labels: Of the same shape: 1, 0 and NaN.
        thresholds: One per column.
    """
    found = []
    for column, name in enumerate(names):
        known = annotated(labels[:, column])
        truth, scores = labels[known, column] == 1, probabilities[known, column]
        if not len(truth):
            continue
        called = scores > thresholds[column]
        hits = int((called & truth).sum())
        positives = int(truth.sum())
        both = 0 < positives < len(truth)
        ap = average_precision(scores[:, None], truth[:, None].float())[0] if both else np.nan
        found.append(
            ClassQuality(
                name=name,
                positives=positives,
                negatives=len(truth) - positives,
                average_precision=float(ap),
                precision=hits / int(called.sum()) if bool(called.any()) else np.nan,
                recall=hits / positives if positives else np.nan,
                threshold=float(thresholds[column]),
            )
        )
    return found


def best_threshold(
    probabilities: Tensor,
    truth: Tensor,
    precision_to_keep: float | None = None,
    weights: Tensor | None = None,
) -> float:
    """The threshold with the best F1, or with the best recall among those that keep a precision.

    It is the midpoint between two probabilities, so that rounding does not change a decision.

    Args:
        probabilities: Leave-one-out probabilities of one class.
        truth: 1 and 0.
        precision_to_keep: As a fraction; if no threshold reaches it, the most precise one is taken.
        weights: Number of pictures that each represents; one by default.

    >>> best_threshold(torch.tensor([0.9, 0.6, 0.2]), torch.tensor([1.0, 1.0, 0.0]))
    0.4
    """
    if not 0 < int((truth == 1).sum()) < len(truth):
        return EVEN
    order = probabilities.double().argsort(descending=True)
    counts = torch.ones(len(order)).double() if weights is None else weights.double()[order]
    scores, present = probabilities.double()[order], (truth[order] == 1).double()
    called, hits = counts.cumsum(0), (counts * present).cumsum(0)
    between = torch.cat([(scores[:-1] + scores[1:]) / 2, scores[-1:] / 2])
    precision, recall = hits / called, hits / hits[-1]
    quality = 2 * precision * recall / (precision + recall).clamp(min=1e-12)
    if precision_to_keep is not None:
        enough = precision >= precision_to_keep
        quality = torch.where(enough, recall, -1.0) if bool(enough.any()) else precision
    # No threshold separates equal probabilities.
    apart = torch.cat([scores[:-1] > scores[1:], torch.ones(1, dtype=torch.bool)])
    quality = quality.masked_fill(~apart, -2.0)
    return round(float(between[quality.argmax()]), 6)


def best_thresholds(
    probabilities: Tensor,
    labels: Tensor,
    precision_to_keep: float | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """:func:`best_threshold` of every column, from the pictures annotated for it.

    The best F1 on a few pictures generalises poorly. The threshold of a class with few positives is
    therefore shrunk towards the best one for all classes together, and this one towards 0.5; thresholds that
    keep a precision are not shrunk.

    Args:
        probabilities: ``[pictures, classes]``.
        labels: Of the same shape: 1, 0 and NaN.
        precision_to_keep: As for one class.
        weights: Of the same shape, as for one class.
    """
    counts = torch.ones(labels.shape) if weights is None else weights
    known, shown = annotated(labels), labels == 1

    def best(rows: Tensor, columns: int | slice) -> float:
        chosen = (part[:, columns][rows] for part in (probabilities, labels, counts))
        scores, truth, stand_for = chosen
        return best_threshold(scores, truth, precision_to_keep, stand_for)

    own = torch.tensor([best(known[:, column], column) for column in range(labels.shape[1])])
    if precision_to_keep is not None:
        return own
    positives = (counts * shown).sum(0)
    even = torch.tensor(EVEN)
    together = _shrunk(torch.tensor(best(known, slice(None))), even, positives.sum())
    both = shown.any(0) & (labels == 0).any(0)
    return torch.where(both, _shrunk(own, together, positives), even)


def matching_thresholds(probabilities: Tensor, labels: Tensor, before: Tensor) -> Tensor:
    """Thresholds that predict each class in about as many pictures as have it, never in more.

    For scores of training pictures. These are better than those of new pictures, so F1 cannot be estimated
    from them, but the share of predicted pictures can. A threshold is the midpoint, in log-odds, between the
    lowest score to predict and the next, shrunk towards 0.5 with the weight of one picture.

    Args:
        probabilities: ``[pictures, classes]``.
        labels: Of the same shape: 1, 0 and NaN.
        before: Current thresholds, kept for classes without annotated pictures. The threshold of a class
            without positives is at least the highest score.

    >>> scores = torch.tensor([[0.4, 0.4], [0.2, 0.3], [0.1, 0.2], [0.1, 0.1]])
    >>> labels = torch.tensor([[1.0, 1.0]] + 3 * [[0.0, float("nan")]])
    >>> [round(each, 2) for each in matching_thresholds(scores, labels, torch.full((2,), 0.5)).tolist()]
    [0.39, 0.5]
    """
    found = before.clone()
    for column in range(labels.shape[1]):
        known = annotated(labels[:, column])
        scores = probabilities[known, column].sort(descending=True).values
        shown = int((labels[known, column] == 1).sum())
        if shown == 0 < len(scores):
            found[column] = torch.maximum(before[column], scores[0])
        elif shown < len(scores):
            middle = scores[shown - 1 : shown + 1].logit(1e-6).mean().sigmoid()
            drawn = _shrunk(middle, torch.tensor(EVEN), torch.tensor(shown), LEARNED_PRIOR)
            # In no more pictures than have the class.
            found[column] = torch.maximum(drawn, scores[shown])
    return found


def _shrunk(
    chosen: Tensor, prior: Tensor, positives: Tensor, prior_positives: int = PRIOR_POSITIVES
) -> Tensor:
    """Shrink a threshold towards a prior, in log-odds, by the number of positives."""
    share = positives / (positives + prior_positives)
    return (share * chosen.logit(1e-6) + (1 - share) * prior.logit(1e-6)).sigmoid()
