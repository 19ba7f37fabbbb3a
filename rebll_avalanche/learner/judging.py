"""Thresholds from leave-one-out scores or from a person, and how good classes are by these."""

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

# Enough to place a threshold; more would only cost time.
THRESHOLD_PICTURES = 8192
# Of a class that fewer pictures show than these, a sample could hold none.
RARE = 100


def with_thresholds(
    know: Knowledge,
    precision: float | None,
    keys: Sequence[int] = (),
    labels: Tensor | None = None,
) -> tuple[Knowledge, tuple[ClassQuality, ...]]:
    """Thresholds from scores of pictures that were left out, and how good these are on a lesson.

    Those that a person has set stay as they are.

    Args:
        know: What an exact method has learned; returned as it is if that is nothing.
        precision: Thresholds keep this precision instead of the best F1.
        keys: The pictures of the lesson.
        labels: As the lesson gives them; without these, no qualities are returned.
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
    """Thresholds of a method that has no leave-one-out scores, from what it says about a lesson.

    Those of classes that the lesson does not speak about, and those that a person has set, stay.

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
    """Pictures to place thresholds by.

    Attributes:
        keys: The pictures.
        counted: ``[pictures, classes]``: for which classes each was drawn.
        weights: Of the same shape: how many pictures it stands for there.
    """

    keys: list[int]
    counted: Tensor
    weights: Tensor


def _sample(records: ImageRecords) -> _Sample:
    """Every so many pictures, and of rare classes each one that shows it."""
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
    """With thresholds that a person has set, beside those of other classes.

    Raises:
        RebllError: When a class is not known, or a threshold is no probability.
    """
    know.columns_of(list(thresholds))
    for name, threshold in thresholds.items():
        if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise RebllError(
                f"a threshold lies between 0 and 1, got {brief(threshold)} for {name!r}"
            )
    return _with_kept(know, {**know.kept_thresholds, **thresholds})


def _with_kept(know: Knowledge, kept: Mapping[str, float]) -> Knowledge:
    # A class that was forgotten has no past when it comes back.
    left = {name: threshold for name, threshold in kept.items() if name in know.class_names}
    thresholds = know.thresholds.clone()
    thresholds[know.columns_of(list(left))] = torch.tensor(list(left.values())).float()
    return replace(know, thresholds=thresholds, kept_thresholds=left)


def qualities(know: Knowledge) -> tuple[ClassQuality, ...]:
    """How good every class is on all pictures annotated for it, each scored by a head without it."""
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
    """Refuse a precision that no thresholds can keep.

    Raises:
        RebllError: Naming the value.
    """
    number = isinstance(precision, int | float) and not isinstance(precision, bool)
    if precision is not None and not (number and 0 < precision <= 1):
        raise RebllError(f"precision is a fraction above 0 and at most 1, got {brief(precision)}")
