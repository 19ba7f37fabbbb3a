"""Changes of a learner, for the queue of the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner import Learner
from rebll_avalanche.learner.pictures import Pictures
from rebll_avalanche.serve.schemas import (
    Correction,
    Done,
    Forget,
    Labels,
    LessonAnswer,
    Quality,
    Taught,
)
from rebll_avalanche.serve.service import Change, Job
from rebll_avalanche.tables import AnnotationTable
from rebll_avalanche.tables.table import UNKNOWN, check_names
from rebll_avalanche.words import many

SOURCE = "the browser"


def label_matrix(labels: Labels, num_pictures: int) -> tuple[list[str], np.ndarray]:
    """Class names and ``[pictures, classes]`` of 1, 0 and NaN.

    A list of names annotates all classes of the lesson: these are present, the others absent. An object
    annotates single classes.

    >>> label_matrix([["cat"], {"dog": False}], 2)
    (['cat', 'dog'], array([[ 1.,  0.],
           [nan,  0.]], dtype=float32))

    Raises:
        RebllError: When they do not fit the pictures, or name no class.
    """
    if len(labels) != num_pictures:
        raise RebllError(f"{num_pictures} pictures, but labels for {len(labels)}")
    names = list(dict.fromkeys(name for given in labels for name in given))
    if not names:
        raise RebllError("the labels name no class; a lesson is about at least one")
    check_names(dict.fromkeys(names, "labels"), SOURCE)
    matrix = np.full((num_pictures, len(names)), UNKNOWN, np.float32)
    for row, given in enumerate(labels):
        for column, name in enumerate(names):
            if isinstance(given, list):
                matrix[row, column] = name in given
            elif (present := given.get(name)) is not None:
                matrix[row, column] = present
    told = [column for column in range(len(names)) if not np.isnan(matrix[:, column]).all()]
    if not told:
        raise RebllError("every label is marked as not annotated, so there is nothing to learn")
    return [names[column] for column in told], matrix[:, told]


class Watched(Sequence[str]):
    """Paths of pictures that count accesses, to estimate the progress of a lesson.

    Args:
        paths: Paths, in order.
        job: Job whose progress is set.
        rounds: Number of times that each path will be read.
    """

    def __init__(self, paths: Sequence[str], job: Job, rounds: int) -> None:
        self._paths = paths
        self._job = job
        self._step = 1 / (rounds * len(paths))

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: Any) -> Any:
        # The rest of the lesson takes time too; the service sets the progress to 1.
        self._job.progress = min(self._job.progress + self._step, 0.95)
        return self._paths[index]

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))


def learn(
    names: Sequence[str], paths: Sequence[str], classes: Sequence[str], labels: np.ndarray
) -> Change:
    """A lesson.

    Args:
        names: Human-readable names of the pictures.
        paths: Their temporary files.
        classes: Result of :func:`label_matrix`, like the labels.
        labels: ``[pictures, classes]``.
    """

    def change(learner: Learner, job: Job) -> Taught:
        known = bool(set(classes) & set(learner.class_names))
        # Each picture is hashed and decoded, twice if the quality before the lesson is measured.
        table = AnnotationTable(
            images=tuple(names),
            class_names=tuple(classes),
            labels=labels,
            read_as="labels from the browser",
            source=SOURCE,
            pictures=Watched(paths, job, 4 if known else 2),
        )
        before = learner.evaluate(table) if known else None
        lesson = learner.learn(table)
        return Taught(
            lesson=LessonAnswer.of(lesson, learner),
            before=[Quality.of(quality) for quality in before.qualities] if before else [],
            known_pictures=before.learned_pictures if before else 0,
        )

    return change


def undo(learner: Learner, job: Job) -> Done:
    """Undo the last lesson."""
    lesson = learner.undo()
    return Done(
        message=f"lesson {lesson.number} of {many(len(lesson.pictures), 'picture')} was undone"
    )


def rename(old: str, new: str) -> Change:
    """Rename a class."""

    def change(learner: Learner, job: Job) -> Done:
        learner.rename(old, new)
        return Done(message=f"{old} is called {new} now")

    return change


def forget(what: Forget) -> Change:
    """Forget pictures by name, classes, or a lesson."""

    def change(learner: Learner, job: Job) -> Done:
        if what.pictures is not None:
            learner.forget(images=_by_name(what.pictures))
            return Done(message=f"forgotten: {many(len(what.pictures), 'picture')}")
        if what.classes is not None:
            learner.forget(classes=what.classes)
            return Done(message=f"forgotten: {', '.join(what.classes)}")
        learner.forget(lesson=what.lesson)
        return Done(message=f"lesson {what.lesson} was forgotten")

    return change


def correct(corrections: Sequence[Correction]) -> Change:
    """Correct labels of learned pictures."""
    names = list(dict.fromkeys(each.picture for each in corrections))
    classes = list(dict.fromkeys(each.name for each in corrections))
    labels = np.full((len(names), len(classes)), UNKNOWN, np.float32)
    for each in corrections:
        labels[names.index(each.picture), classes.index(each.name)] = each.present

    def change(learner: Learner, job: Job) -> Done:
        table = AnnotationTable(
            images=tuple(names),
            class_names=tuple(classes),
            labels=labels,
            read_as="corrections from the browser",
            source=SOURCE,
            pictures=_by_name(names).given,
        )
        return Done(message=str(learner.correct(table)))

    return change


def keep_thresholds(thresholds: Mapping[str, float]) -> Change:
    """Set thresholds that lessons do not change."""

    def change(learner: Learner, job: Job) -> Done:
        learner.set_thresholds(thresholds)
        return Done(message=f"thresholds kept of {', '.join(thresholds)}")

    return change


def choose_thresholds(precision: float | None) -> Change:
    """Choose thresholds from leave-one-out scores."""

    def change(learner: Learner, job: Job) -> Done:
        learner.choose_thresholds(precision)
        how = "the best F1" if precision is None else f"a precision of {100 * precision:g} %"
        return Done(message=f"all thresholds are chosen for {how}")

    return change


def _by_name(names: Sequence[str]) -> Pictures:
    """Learned pictures by name; no name is treated as a path."""
    return Pictures(names, [""] * len(names))
