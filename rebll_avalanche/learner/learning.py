"""One lesson: from the pictures and labels of a table to new knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

import torch
from torch import Tensor

from rebll_avalanche.benchmarks.images import Source
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.labels import UNKNOWN
from rebll_avalanche.learner.judging import with_matching_thresholds, with_thresholds
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.lesson import Lesson
from rebll_avalanche.learner.methods import is_exact
from rebll_avalanche.learner.pictures import Pictures
from rebll_avalanche.learner.predicting import answers, build_learned, probabilities
from rebll_avalanche.tables import AnnotationTable
from rebll_avalanche.tables.table import check_names


def check_class_names(know: Knowledge, read: AnnotationTable) -> None:
    """Refuse names of classes that could be confused with each other or with known ones."""
    known = dict.fromkeys(know.class_names, "known already")
    check_names(known | dict.fromkeys(read.class_names, "the table"), read.source)


def learned(
    know: Knowledge,
    read: AnnotationTable,
    pictures: Pictures,
    keys: Sequence[int],
    inputs: Source,
    labels: Tensor,
    *,
    config: Config,
    precision: float | None,
    source: str,
) -> tuple[Knowledge, Lesson]:
    """The knowledge after a lesson, and the lesson, whose ``seconds`` the caller sets.

    Args:
        know: The knowledge before; not changed.
        read: The table.
        pictures: The table's pictures.
        keys: Their keys.
        inputs: Inputs of the network: vectors, or the pictures.
        labels: ``[pictures, classes of the table]``.
        config: Configuration of the learner.
        precision: Precision that thresholds keep; by default they have the best F1.
        source: Name of the table, for the lesson's record.
    """
    # Imported here because it needs Avalanche, which prediction does not.
    from rebll_avalanche.learner.teaching import teach

    new = tuple(name for name in read.class_names if name not in know.class_names)
    wider, columns = know.with_classes(read.class_names)
    wide = torch.full((len(labels), len(wider.columns)), UNKNOWN)
    wide[:, columns] = labels
    fresh = len(wider.columns) - len(know.columns)
    taught = teach(config, know.taught, inputs, wide, keys, fresh)
    shown = know.thumbnails.with_pictures(
        {keys[row]: small for row, small in pictures.thumbnails.items()}
    )
    after = replace(wider, taught=taught, thumbnails=shown)
    lesson = Lesson(
        number=len(taught["sizes"]) - 1,
        source=source,
        taught_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        pictures=pictures.names,
        keys=tuple(keys),
        new_classes=new,
        known_classes=tuple(name for name in read.class_names if name not in new),
        read_as=read.summary,
        again=len(know.learned_keys.intersection(keys)),
    )
    if is_exact(config):
        after, qualities = with_thresholds(after, precision, keys, wide)
        return after, replace(lesson, qualities=qualities)
    network = build_learned(config, after)
    if isinstance(inputs, Pictures):
        scores = answers(config, None, network, inputs)
    else:
        scores = probabilities(network, torch.stack([inputs[row] for row in range(len(inputs))]))
    return with_matching_thresholds(after, scores, wide), lesson
