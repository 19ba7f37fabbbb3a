"""Records of lessons and of evaluations."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

from rebll_avalanche.learner.quality import ClassQuality
from rebll_avalanche.words import brief, many, printable

_LISTS = ("pictures", "new_classes", "known_classes")


def picture_id(key: int) -> str:
    """A picture's key as text; it depends on the content alone.

    >>> picture_id(-1), picture_id(10)
    ('ffffffffffffffff', '000000000000000a')
    """
    return f"{key & (1 << 64) - 1:016x}"


def of_run(folder: Path) -> str:
    """Suffix of the source of a lesson that was an experience of a run."""
    return f" of the run {folder.resolve().name}"


@dataclass(frozen=True)
class Lesson:
    """Record of one lesson.

    Attributes:
        number: From 0.
        source: Human-readable name of the table.
        taught_at: Date and time in ISO form.
        pictures: Names of the pictures, as the table has them.
        keys: A number for each picture, from its content.
        new_classes: Classes of the table that were new.
        known_classes: Classes of the table that were known already.
        read_as: How the table was read.
        qualities: Per class, from scores of a head that had not seen the picture; empty where the
            method has no such scores.
        seconds: Duration.
        again: How many of the pictures had been learned before; their labels are now those of this lesson.
    """

    number: int
    source: str
    taught_at: str
    pictures: tuple[str, ...]
    keys: tuple[int, ...]
    new_classes: tuple[str, ...]
    known_classes: tuple[str, ...]
    read_as: str = ""
    qualities: tuple[ClassQuality, ...] = ()
    seconds: float = 0.0
    again: int = 0

    def __str__(self) -> str:
        new = ", ".join(self.new_classes) or "none"
        lines = [
            f"lesson {self.number}: {many(len(self.pictures), 'picture')} from {self.source} "
            f"in {self.seconds:.1f} s; new classes: {new}",
        ]
        if self.read_as:
            lines.append(self.read_as)
        if self.again:
            lines.append(
                f"{self.again} of these pictures had been learned before; their labels are now those of "
                "this table"
            )
        if self.qualities:
            lines += ["", quality_table(self.qualities)]
            lines.append(
                "each picture scored by a model that had not learned from it (leave-one-out)"
            )
        else:
            lines.append(
                "this method cannot score a picture without having learned from it: each class's threshold "
                "is such that about as many of these pictures are called as show it"
            )
        return printable("\n".join(lines))

    def is_of_run(self, folder: Path) -> bool:
        """Whether it was an experience of a run of that name."""
        return self.source.endswith(of_run(folder))

    def without(self, keys: Collection[int]) -> Lesson:
        """The same lesson as if some pictures had not been in it."""
        gone = set(keys)
        left = [row for row, key in enumerate(self.keys) if key not in gone]
        if len(left) == len(self.keys):
            return self
        pictures = tuple(self.pictures[row] for row in left)
        return replace(self, pictures=pictures, keys=tuple(self.keys[row] for row in left))

    def without_classes(self, names: Collection[str]) -> Lesson:
        """The same lesson as if it had not been about some classes."""
        return replace(
            self,
            new_classes=tuple(name for name in self.new_classes if name not in names),
            known_classes=tuple(name for name in self.known_classes if name not in names),
            qualities=tuple(each for each in self.qualities if each.name not in names),
        )

    def renamed(self, old: str, new: str) -> Lesson:
        """The same lesson with another name for a class."""

        def names(given: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == old else name for name in given)

        return replace(
            self,
            new_classes=names(self.new_classes),
            known_classes=names(self.known_classes),
            qualities=tuple(
                replace(each, name=new) if each.name == old else each for each in self.qualities
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"qualities": [asdict(quality) for quality in self.qualities]}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Lesson:
        """The inverse of :meth:`to_dict`.

        Raises:
            TypeError: When something in it has another type.
            ValueError: When its pictures and keys do not fit each other.
        """
        listed = {name: texts(name, values[name]) for name in _LISTS}
        keys = tuple(int(key) for key in values["keys"])
        qualities = tuple(ClassQuality(**quality) for quality in values["qualities"])
        made = cls(**(values | listed | {"keys": keys, "qualities": qualities}))
        texts("a lesson", [made.source, made.taught_at, made.read_as])
        texts("a class", [quality.name for quality in qualities])
        numbers = [number for quality in qualities for number in astuple(quality)[1:]]
        for number in (made.number, made.seconds, made.again, *numbers):
            if not isinstance(number, int | float):
                raise TypeError(f"a lesson has numbers, got {brief(number)}")
        if len(made.keys) != len(made.pictures):
            raise ValueError(f"{len(made.pictures)} pictures have {len(made.keys)} keys")
        str(made)  # raises now if a number is too large to be printed
        return made


@dataclass(frozen=True)
class Evaluation:
    """Quality of a learner on a table.

    Attributes:
        source: Name of the table.
        pictures: Number of pictures.
        learned_pictures: Number of pictures that it has learned from, on which quality is overestimated.
        qualities: Quality per class.
        unknown_classes: Classes of the table that it does not know.
    """

    source: str
    pictures: int
    learned_pictures: int
    qualities: tuple[ClassQuality, ...]
    unknown_classes: tuple[str, ...] = ()

    @property
    def mean_average_precision(self) -> float:
        """Mean over the classes that have positives and negatives; NaN if there are none."""
        found = [quality.average_precision for quality in self.qualities]
        known = [number for number in found if not math.isnan(number)]
        return sum(known) / len(known) if known else math.nan

    def __str__(self) -> str:
        lines = [quality_table(self.qualities)]
        lines.append(
            f"mAP {100 * self.mean_average_precision:.1f} on {many(self.pictures, 'picture')}"
        )
        if self.learned_pictures:
            lines.append(
                f"{self.learned_pictures} of them were learned from, so the quality on them is too high"
            )
        if self.unknown_classes:
            lines.append(f"left out, because never learned: {', '.join(self.unknown_classes)}")
        return printable("\n".join(lines))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"mean_average_precision": self.mean_average_precision}


def quality_table(qualities: Sequence[ClassQuality]) -> str:
    """One row per class, for a terminal; percent."""
    width = max((len(quality.name) for quality in qualities), default=5)
    header = (
        f"{'class':<{width}}  {'with':>5} {'without':>7} {'AP':>6} {'precision':>9} {'recall':>6} "
    )
    rows = [header + f"{'F1':>6} {'threshold':>9}"]
    for quality in qualities:
        numbers = (quality.average_precision, quality.precision, quality.recall, quality.f1)
        ap, precision, recall, f1 = (
            "-" if math.isnan(number) else f"{100 * number:.1f}" for number in numbers
        )
        rows.append(
            f"{quality.name:<{width}}  {quality.positives:>5} {quality.negatives:>7} {ap:>6} "
            f"{precision:>9} {recall:>6} {f1:>6} {quality.threshold:>9.2f}"
        )
    return "\n".join(rows)


def overview(learner: Any) -> str:
    """Method, classes and lessons of a learner, for a terminal."""
    config = learner.config
    lines = [f"{config.method_name} on {learner.backbone} of {config.benchmark.image_size} px"]
    lines += ["", "class (threshold)"]
    lines += [f"  {name} ({threshold:.2f})" for name, threshold in learner.thresholds.items()]
    lines += ["", "lessons"]
    for lesson in learner.lessons:
        what = lesson.source
        if lesson.taught_at:  # lessons from a run have no list of pictures
            what = f"{lesson.taught_at}, {many(len(lesson.pictures), 'picture')} from {what}"
        lines.append(f"  {lesson.number}: {what}; new: {', '.join(lesson.new_classes) or 'none'}")
    return printable("\n".join(lines))


def texts(name: str, values: Any) -> tuple[str, ...]:
    """A list of texts as a tuple.

    Raises:
        TypeError: When it is something else.
    """
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) for each in values):
        raise TypeError(f"{name} must be texts, got {brief(values)}")
    return tuple(values)
