"""Thresholds, chosen from leave-one-out scores or set by hand, and the quality of classes at these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rebll_avalanche.closed_form.records import ImageRecords
from rebll_avalanche.errors import RebllError
from rebll_avalanche.labels import UNKNOWN
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.quality import (
    ClassQuality,
    best_thresholds,
    class_qualities,
    matching_thresholds,
)
from rebll_avalanche.learner.ridge import left_out, records_of, ridge_of
from rebll_avalanche.words import brief

# Pictures that thresholds are chosen from; more would only cost time.
THRESHOLD_PICTURES = 8192
# All positives of a class with fewer than these are used: a sample might hold none.
RARE = 100


def with_thresholds(
    know: Knowledge,
    precision: float | None,
    keys: Sequence[int] = (),
    labels: Tensor | None = None,
) -> tuple[Knowledge, tuple[ClassQuality, ...]]:
    """Choose thresholds from leave-one-out scores, and measure the quality on a lesson.

    Thresholds set by hand stay unchanged.

    Args:
        know: Knowledge of an exact method; returned unchanged if nothing was learned yet.
        precision: Thresholds keep this precision instead of the best F1.
        keys: Keys of the lesson's pictures.
        labels: Their labels; without these, no qualities are returned.
    """
    if know.taught is None:
        return know, ()
    ridge = ridge_of(know.taught)
    sample = _sample(records_of(ridge, "choosing thresholds"))
    asked = list(dict.fromkeys([*sample.keys, *keys]))
    scores, given = left_out(ridge, asked)
    shown = slice(len(sample.keys))
    said = given[shown].masked_fill(~sample.counted, UNKNOWN)
    chosen = best_thresholds(scores[shown], said, precision, sample.weights)
    know = _with_kept(replace(know, thresholds=chosen), know.kept_thresholds)
    if labels is None:
        return know, ()
    place = {key: row for row, key in enumerate(asked)}
    mine, visible = scores[[place[key] for key in keys]], know.visible
    qualities = class_qualities(
        know.class_names, mine[:, visible], labels[:, visible], know.visible_thresholds
    )
    return know, tuple(qualities)


def with_matching_thresholds(know: Knowledge, scores: Tensor, labels: Tensor) -> Knowledge:
    """Choose thresholds of a method without leave-one-out scores, from its scores on a lesson.

    Thresholds of classes that the lesson does not annotate, and those set by hand, stay unchanged.

    Args:
        know: What was learned.
        scores: ``[pictures of the lesson, classes that can be named]``.
        labels: ``[pictures of the lesson, columns]``.
    """
    visible, thresholds = know.visible, know.thresholds.clone()
    thresholds[visible] = matching_thresholds(scores, labels[:, visible], know.visible_thresholds)
    return _with_kept(replace(know, thresholds=thresholds), know.kept_thresholds)


@dataclass(frozen=True)
class _Sample:
    """A sample of pictures to choose thresholds from.

    Attributes:
        keys: Keys of the pictures.
        counted: ``[pictures, classes]``: for which classes each was drawn.
        weights: Of the same shape: the number of pictures that each represents.
    """

    keys: list[int]
    counted: Tensor
    weights: Tensor


def _sample(records: ImageRecords) -> _Sample:
    """Every n-th picture, and all positives of rare classes."""
    step = -(-len(records) // THRESHOLD_PICTURES)
    drawn = torch.zeros(len(records), dtype=torch.bool)
    drawn[::step] = True
    shown = records.labels == 1
    rare = shown & (shown.sum(0) < RARE)
    rows = (drawn | rare.any(1)).nonzero().flatten()
    names = list(records.index)
    return _Sample(
        keys=[names[row] for row in rows.tolist()],
        counted=drawn[rows, None] | rare[rows],
        weights=torch.where(rare[rows], 1.0, float(step)),
    )


def keeping(know: Knowledge, thresholds: Mapping[str, float]) -> Knowledge:
    """Knowledge with some thresholds set by hand; other classes keep theirs.

    Raises:
        RebllError: When a class is not known, or a threshold is not a probability.
    """
    know.columns_of(list(thresholds))
    for name, threshold in thresholds.items():
        if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise RebllError(
                f"a threshold lies between 0 and 1, got {brief(threshold)} for {name!r}"
            )
    return _with_kept(know, {**know.kept_thresholds, **thresholds})


def _with_kept(know: Knowledge, kept: Mapping[str, float]) -> Knowledge:
    # A forgotten class that is learned again starts without its earlier threshold.
    left = {name: threshold for name, threshold in kept.items() if name in know.class_names}
    thresholds = know.thresholds.clone()
    thresholds[know.columns_of(list(left))] = torch.tensor(list(left.values())).float()
    return replace(know, thresholds=thresholds, kept_thresholds=left)


def qualities(know: Knowledge) -> tuple[ClassQuality, ...]:
    """Leave-one-out quality of every class on all pictures annotated for it."""
    if know.taught is None:
        return ()
    visible = know.visible
    scores, labels = left_out(ridge_of(know.taught))
    return tuple(
        class_qualities(
            know.class_names, scores[:, visible], labels[:, visible], know.visible_thresholds
        )
    )


def check_precision(precision: float | None) -> None:
    """Refuse a precision that is not a fraction above 0.

    Raises:
        RebllError: Naming the value.
    """
    number = isinstance(precision, int | float) and not isinstance(precision, bool)
    if precision is not None and not (number and 0 < precision <= 1):
        raise RebllError(f"precision is a fraction above 0 and at most 1, got {brief(precision)}")
