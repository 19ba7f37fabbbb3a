"""Exact changes without training: each function takes a :class:`Knowledge` and returns another.

Thresholds are not changed; see :func:`~rebll_avalanche.learner.judging.with_thresholds`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.arguments import check_texts
from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import RebllError
from rebll_avalanche.labels import UNKNOWN, annotated
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.pictures import Given, Pictures, find_pictures, is_one
from rebll_avalanche.learner.reading import known_keys
from rebll_avalanche.learner.ridge import records_of, ridge_of, with_ridge
from rebll_avalanche.tables import AnnotationTable
from rebll_avalanche.tables.table import check_names
from rebll_avalanche.words import brief, many


@dataclass(frozen=True)
class Correction:
    """Result of a correction.

    Attributes:
        pictures: Number of pictures in the table.
        changed: Number of changed labels, by class.
    """

    pictures: int
    changed: dict[str, int]

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {count}" for name, count in self.changed.items())
        changed = many(sum(self.changed.values()), "label")
        return f"{many(self.pictures, 'picture')}, {changed} changed ({listed or 'none'})"


def corrected(
    know: Knowledge, read: AnnotationTable, pictures: Pictures
) -> tuple[Knowledge, Correction]:
    """Knowledge with corrected labels of learned pictures.

    Args:
        know: Knowledge of an exact method.
        read: The table, with known classes only.
        pictures: Those of the table.
    """
    columns = know.columns_of(read.class_names)
    keys = known_keys(know, pictures)
    if len(set(keys)) < len(keys):
        raise RebllError("a picture is listed twice, maybe under two names; list each once")
    taught = know.require_taught()
    ridge = ridge_of(taught)
    records = records_of(ridge, "correcting labels")
    labels = torch.full((len(keys), len(know.columns)), UNKNOWN)
    labels[:, columns] = torch.from_numpy(read.labels).float()
    was = records.labels[records.known_rows(keys)][:, columns].float()
    now = labels[:, columns]
    changed = (annotated(now) & (was != now)).sum(0).tolist()
    ridge.correct(keys, labels)
    _recalibrate(ridge)
    counts = zip(read.class_names, changed, strict=True)
    correction = Correction(len(keys), {name: count for name, count in counts if count})
    return replace(know, taught=with_ridge(taught, ridge)), correction


def without(
    know: Knowledge,
    *,
    images: Given | Iterable[Given] | None = None,
    classes: str | Iterable[str] | None = None,
    lesson: int | None = None,
) -> Knowledge:
    """Knowledge without pictures, classes or a lesson; see :meth:`Learner.forget`."""
    if sum(given is not None for given in (images, classes, lesson)) != 1:
        raise RebllError("say what to forget: images=, classes= or lesson=, one of them at a time")
    taught = know.require_taught()
    ridge = ridge_of(taught)
    records_of(ridge, "forgetting")
    if images is not None:
        know = _without_pictures(know, ridge, images)
    elif classes is not None:
        check_texts("classes", classes)
        names = [classes] if isinstance(classes, str) else list(classes)
        know = _without_classes(know, ridge, know.columns_of(names), names)
    else:
        assert lesson is not None
        know = _without_lesson(know, ridge, lesson)
    thumbnails = know.thumbnails.only(know.learned_keys)
    if not ridge.records:
        return Knowledge(thumbnails=thumbnails)  # no picture is left to solve a head from
    _recalibrate(ridge)
    return replace(know, taught=with_ridge(taught, ridge), thumbnails=thumbnails)


def _recalibrate(ridge: RidgeLearner) -> None:
    """Fit the calibration to the remaining pictures; with guesses, the change has already done so."""
    if not ridge.guess_share:
        ridge.relearn()


def _without_pictures(
    know: Knowledge, ridge: RidgeLearner, images: Given | Iterable[Given]
) -> Knowledge:
    listed = [images] if is_one(images) else images
    found = known_keys(know, find_pictures(listed))  # type: ignore[arg-type]
    keys = list(dict.fromkeys(found))
    ridge.forget_images(keys)
    return replace(know, lessons=tuple(each.without(keys) for each in know.lessons))


def _without_classes(
    know: Knowledge, ridge: RidgeLearner, columns: list[int], names: list[str]
) -> Knowledge:
    records = records_of(ridge, "forgetting")
    # Its pictures stay for other classes, but their thumbnails are deleted.
    shown = (records.labels[:, columns] == 1).any(1).tolist()
    left = [key for key, shows in zip(records.index, shown, strict=True) if not shows]
    ridge.forget_classes(columns)
    return replace(
        know,
        forgotten=know.forgotten | set(names),
        lessons=tuple(lesson.without_classes(names) for lesson in know.lessons),
        thumbnails=know.thumbnails.only(left),
    )


def _without_lesson(know: Knowledge, ridge: RidgeLearner, lesson: int) -> Knowledge:
    numbers = [each.number for each in know.lessons]
    if lesson not in numbers:
        raise RebllError(f"there is no lesson {brief(lesson)}; there are {numbers}")
    ridge.forget_experience(lesson)
    left = tuple(each for each in know.lessons if each.number != lesson)
    named = {name for each in left for name in (*each.new_classes, *each.known_classes)}
    gone = set(know.class_names) - named
    know = replace(know, lessons=left)
    if gone:  # classes that only corrections still annotate
        names = sorted(gone)
        know = _without_classes(know, ridge, [know.columns.index(name) for name in names], names)
    return know


def renamed(know: Knowledge, old: str, new: str) -> Knowledge:
    """Knowledge with a renamed class."""
    check_texts("the old and new name of a class", [old, new])
    know.columns_of([old])
    others = [name for name in know.columns if name != old and name not in know.forgotten]
    check_names(dict.fromkeys(others, "known") | {new: "the new name"}, "rename")
    if new in others:
        raise RebllError(f"there is a class {new!r} already; forget one of the two")

    def swapped(names: Iterable[str]) -> tuple[str, ...]:
        # A forgotten class with the new name takes the old one, since every column needs a name.
        return tuple({old: new, new: old}.get(name, name) for name in names)

    kept = know.kept_thresholds
    return replace(
        know,
        kept_thresholds=dict(zip(swapped(kept), kept.values(), strict=True)),
        columns=swapped(know.columns),
        forgotten=frozenset(swapped(know.forgotten)),
        lessons=tuple(lesson.renamed(old, new) for lesson in know.lessons),
    )


def merged(know: Knowledge, other: Knowledge) -> Knowledge:
    """Knowledge with all lessons of another learner added; both have lessons.

    Args:
        know: Knowledge of the first learner.
        other: Knowledge of a :func:`comparable` one.
    """
    mine, theirs = know.require_taught(), other.require_taught()
    if not _same_backbone(mine["strategy"]["model"], theirs["strategy"]["model"]):
        raise RebllError(
            "the networks of the two learners have other weights, so their vectors cannot be combined; "
            "merge learners that began with the same weights (the same pretrained= or seed=)"
        )
    wider, columns = know.with_classes(other.columns)
    hidden = other.forgotten - set(know.class_names)
    ridge, first = ridge_of(mine), len(mine["sizes"])
    ridge.merge(ridge_of(theirs), columns=columns, first_number=first)
    fresh = len(wider.columns) - len(know.columns)
    sizes = [*mine["sizes"], fresh, *[0] * (len(theirs["sizes"]) - 1)]
    added = tuple(replace(each, number=each.number + first) for each in other.lessons)
    return replace(
        wider,
        forgotten=wider.forgotten | hidden,
        kept_thresholds={**other.kept_thresholds, **know.kept_thresholds},
        taught=with_ridge(mine, ridge) | {"sizes": sizes},
        lessons=(*know.lessons, *added),
        thumbnails=know.thumbnails.with_pictures(other.thumbnails.pictures),
    )


def _same_backbone(mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    """Whether two networks are equal except for their heads."""
    names = [{name for name in each if not name.startswith("head.")} for each in (mine, theirs)]
    return names[0] == names[1] and all(torch.equal(mine[name], theirs[name]) for name in names[0])


def comparable(config: Config) -> dict[str, Any]:
    """The settings that two learners must have in common to be merged."""
    plain = config.to_dict()
    return {name: plain[name] for name in ("benchmark", "model", "method")}
