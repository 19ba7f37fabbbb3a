"""Thresholds from leave-one-out scores, and how good a lesson's classes are by these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.quality import ClassQuality, best_thresholds, class_qualities
from rebll_avalanche.learner.ridge import left_out, records_of, ridge_of

# Enough to place a threshold; more would only cost time.
THRESHOLD_PICTURES = 8192


def with_thresholds(
    know: Knowledge,
    precision: float | None,
    keys: Sequence[int] = (),
    labels: Tensor | None = None,
) -> tuple[Knowledge, tuple[ClassQuality, ...]]:
    """Thresholds from scores of pictures that were left out, and how good these are on a lesson.

    Args:
        know: What an exact method has learned; returned as it is if that is nothing.
        precision: Thresholds keep this precision instead of the best F1.
        keys: The pictures of the lesson.
        labels: As the lesson gives them; without these, no qualities are returned.
    """
    if know.taught is None:
        return know, ()
    ridge = ridge_of(know.taught)
    everything = list(records_of(ridge, "choosing thresholds").index)
    sample = everything[:: -(-len(everything) // THRESHOLD_PICTURES)]
    asked = list(dict.fromkeys([*sample, *keys]))
    scores, given = left_out(ridge, asked)
    found = best_thresholds(scores[: len(sample)], given[: len(sample)], precision)
    know = replace(know, thresholds=found)
    if labels is None:
        return know, ()
    place = {key: row for row, key in enumerate(asked)}
    mine, visible = scores[[place[key] for key in keys]], know.visible
    qualities = class_qualities(
        know.class_names, mine[:, visible], labels[:, visible], found[visible]
    )
    return know, tuple(qualities)
