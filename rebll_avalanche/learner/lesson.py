"""What a learner was taught: one entry per lesson."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from rebll_avalanche.learner.quality import ClassQuality
from rebll_avalanche.words import printable


@dataclass(frozen=True)
class Lesson:
    """One lesson and what came of it.

    Attributes:
        number: From 0.
        source: The table, for people.
        taught_at: Date and time in ISO form.
        pictures: Names of the pictures, as the table has them.
        keys: A number for each picture, from its content.
        new_classes: Classes that nobody had named before.
        known_classes: Classes of the table that were known already.
        read_as: How the table was read.
        qualities: Per class, from scores of a head that had not seen the picture; empty where the
            method has no such scores.
        seconds: For all of it.
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

    def __str__(self) -> str:
        new = ", ".join(self.new_classes) or "none"
        lines = [
            f"lesson {self.number}: {len(self.pictures)} pictures from {self.source} "
            f"in {self.seconds:.1f} s; new classes: {new}",
        ]
        if self.read_as:
            lines.append(self.read_as)
        if self.qualities:
            lines += ["", quality_table(self.qualities)]
            lines.append("each picture scored by a model that had not learned from it (leave-one-out)")
        return printable("\n".join(lines))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Lesson:
        """The lesson that :meth:`to_dict` was called on."""
        sequences = ("pictures", "keys", "new_classes", "known_classes")
        qualities = tuple(ClassQuality(**quality) for quality in values["qualities"])
        given = values | {name: tuple(values[name]) for name in sequences}
        return cls(**(given | {"qualities": qualities}))


def quality_table(qualities: tuple[ClassQuality, ...] | list[ClassQuality]) -> str:
    """One row per class, for a terminal; percent."""
    width = max((len(quality.name) for quality in qualities), default=5)
    header = f"{'class':<{width}}  {'with':>5} {'without':>7} {'AP':>6} {'precision':>9} {'recall':>6} {'threshold':>9}"
    rows = [header]
    for quality in qualities:
        numbers = (quality.average_precision, quality.precision, quality.recall)
        ap, precision, recall = (
            "-" if math.isnan(number) else f"{100 * number:.1f}" for number in numbers
        )
        rows.append(
            f"{quality.name:<{width}}  {quality.positives:>5} {quality.negatives:>7} {ap:>6} "
            f"{precision:>9} {recall:>6} {quality.threshold:>9.2f}"
        )
    return "\n".join(rows)
