"""The result of every reader: images, class names, and a label matrix."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rebll_avalanche.errors import MissingFileError, TableError
from rebll_avalanche.words import brief

UNKNOWN = float("nan")
# Label for a class whose only instances in an image are marked as a crowd or as difficult.
POLICIES = {"drop": 0.0, "keep": 1.0, "unknown": UNKNOWN}
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?%?")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?|\d{1,2}:\d{2}(:\d{2}.*)?")
_NO_NAMES = frozenset("nan na n/a null none true false yes no inf x ? - + unknown".split())  # noqa: SIM905


@dataclass(frozen=True, eq=False)
class AnnotationTable:
    """Image labels read from any file or object.

    It annotates the classes in ``class_names``; labels of all other classes are unknown.

    Attributes:
        images: Path of each image, or a name for each row if images are not files.
        class_names: One per column.
        labels: ``float32 [images, classes]``: 1 present, 0 absent, NaN unknown.
        read_as: Human-readable name of the detected format.
        source: Name of the source, for messages.
        notes: Further remarks for the user on how it was read.
        splits: ``"train"`` or ``"test"`` for each image, if the source has a split.
        pictures: The images themselves, by row, if they are not files.
        closed: Whether an unnamed class is absent; otherwise it is not annotated.
    """

    images: tuple[str, ...]
    class_names: tuple[str, ...]
    labels: np.ndarray
    read_as: str
    source: str = "the table"
    notes: tuple[str, ...] = ()
    splits: tuple[str, ...] | None = None
    pictures: Sequence[Any] | None = None
    closed: bool = True

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.images), len(self.class_names)):
            raise TableError(
                f"{self.source}: {len(self.images)} pictures and {len(self.class_names)} class names "
                f"do not fit labels of shape {self.labels.shape}"
            )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def summary(self) -> str:
        """One-line summary of what was read.

        >>> AnnotationTable(("a.jpg",), ("cat",), np.ones((1, 1)), "file and names").summary
        'read as: file and names, 1 class, 0 % unknown, 1 picture'
        """
        unknown = float(np.isnan(self.labels).mean()) if self.labels.size else 0.0
        share = f"{100 * unknown:.0f} %" if not 0 < unknown < 0.01 else "less than 1 %"
        classes = _counted(len(self.class_names), "class", "classes")
        parts = [self.read_as, classes, f"{share} unknown", _counted(len(self), "picture")]
        return "; ".join([f"read as: {', '.join(parts)}", *self.notes])

    def about(self, classes: Iterable[str]) -> AnnotationTable:
        """The same table for exactly these classes.

        A class without any row is negative everywhere, because it was looked for.

        Raises:
            TableError: When the table has one column per class and none for a requested class, or when
                a name differs from one of the table's only in case or spaces.
        """
        wanted = list_classes(classes)
        check_names(
            dict.fromkeys(wanted, "about") | dict.fromkeys(self.class_names, "the table"),
            self.source,
        )
        columns = {name: column for column, name in enumerate(self.class_names)}
        absent = [name for name in wanted if name not in columns]
        if absent and not self.closed:
            raise TableError(
                f"{self.source} has no column for {', '.join(map(repr, absent))}, so it says nothing "
                f"about it; choose from its columns: {', '.join(self.class_names)}"
            )
        labels = np.zeros((len(self), len(wanted)), np.float32)
        for column, name in enumerate(wanted):
            if name in columns:
                labels[:, column] = self.labels[:, columns[name]]
        return replace(self, class_names=tuple(wanted), labels=labels)

    def rows_of_split(self, split: str) -> AnnotationTable:
        """The rows of ``"train"`` or ``"test"``, and a note about the others; all rows if there is no split.

        Raises:
            TableError: When no row belongs to it.
        """
        if self.splits is None:
            return self
        rows = [row for row, given in enumerate(self.splits) if given == split]
        if not rows:
            raise TableError(f"{self.source}: its column 'split' has no row of {split!r}")
        left_out = _counted(len(self) - len(rows), "other row")
        pictures = self.pictures
        return replace(
            self,
            images=tuple(self.images[row] for row in rows),
            labels=self.labels[rows],
            splits=tuple(self.splits[row] for row in rows),
            pictures=None if pictures is None else [pictures[row] for row in rows],
            notes=(*self.notes, f"rows of the split {split!r}, without {left_out}"),
        )

    def missing_pictures(self) -> list[str]:
        """The images that do not exist."""
        if self.pictures is not None:
            return []
        return [path for path in self.images if not os.path.exists(path)]

    def require_pictures(self) -> None:
        """Raise a :class:`MissingFileError` if images are missing."""
        missing = self.missing_pictures()
        if missing:
            first = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            raise MissingFileError(
                f"{self.source}: {len(missing)} of {len(self)} pictures are missing: {first}; "
                f"{_way_to(missing[0])}"
            )


def _way_to(missing: str) -> str:
    """What to do about a picture that is not there."""
    folder, name = os.path.split(missing)
    try:
        there = os.listdir(folder or os.curdir)
    except OSError:
        there = []
    stem = os.path.splitext(name)[0].lower()
    alike = [other for other in sorted(there) if os.path.splitext(other)[0].lower() == stem]
    if alike:
        return f"there is {alike[0]}: write names as the files have them, case and ending included"
    return (
        "name the folder that the table's file names are relative to (--images on a command line, "
        "images= in Python)"
    )


def list_classes(about: Any) -> list[str]:
    """Class names without duplicates; a single name is treated as a list of one."""
    single = isinstance(about, str) or not isinstance(about, Iterable)
    listed = [about] if single else list(about)
    if not all(isinstance(name, str) for name in listed):
        raise TableError(f"about= must hold class names, got {brief(about)}")
    return list(dict.fromkeys(listed))


def from_names(found: Mapping[str, Iterable[str]], **fields: Any) -> AnnotationTable:
    """Build a table from the class names of each image; all other classes are absent."""
    names = sorted({name for present in found.values() for name in present})
    columns = {name: column for column, name in enumerate(names)}
    labels = np.zeros((len(found), len(names)), np.float32)
    for row, present in enumerate(found.values()):
        labels[row, [columns[name] for name in present]] = 1
    return AnnotationTable(tuple(found), tuple(names), labels, **fields)


def merged_rows(
    images: Sequence[str],
    labels: np.ndarray,
    names: Sequence[str],
    where: str,
    numbers: Iterable[int],
) -> tuple[list[str], np.ndarray]:
    """Merge the rows of each image; known labels take precedence over unknown ones.

    If rows contradict each other, the message has their numbers after ``where``, as in "labels.csv: lines".
    """
    rows = {image: row for row, image in enumerate(dict.fromkeys(images))}
    if len(rows) == len(images):
        return list(images), labels
    merged = np.full((len(rows), len(names)), UNKNOWN, np.float32)
    told = np.zeros(merged.shape, int)
    for image, given, number in zip(images, labels, numbers, strict=True):
        row, known = rows[image], ~np.isnan(given)
        clash = np.flatnonzero(known & ~np.isnan(merged[row]) & (merged[row] != given))
        if len(clash):
            raise TableError(
                f"{where} {told[row, clash[0]]} and {number} contradict each other about "
                f"{names[clash[0]]!r} in {image}; keep the right one"
            )
        merged[row, known], told[row, known] = given[known], number
    return list(rows), merged


def finished(table: AnnotationTable, about: Iterable[str] | None = None) -> AnnotationTable:
    """Restrict a table to the requested classes; refuse it without images or classes."""
    if about is not None:
        table = table.about(about)
    if not len(table):
        raise TableError(f"{table.source} has no labels: it names no picture")
    if not table.class_names:
        raise TableError(
            f"{table.source} has no labels; each row needs a file name and label names. If the images "
            "are negatives for all classes, name these classes with about="
        )
    return table


def check_names(names: Mapping[str, str], source: str) -> None:
    """Refuse cells that are not class names, and pairs of names that are probably one class.

    Args:
        names: Each name with its location, such as ``"line 3"``.
        source: Name of the table, for messages.
    """
    seen: dict[str, str] = {}
    for name, where in names.items():
        check_text(name, f"{source}, {where}: the class")
        problem = _no_name(name)
        if problem:
            raise TableError(
                f"{source}, {where}: {name!r} is {problem}, not the name of a class; give the column "
                "of names the header 'labels', or each class a column of 1 and 0 with its name on top"
            )
        key = "".join(unicodedata.normalize("NFKC", name).casefold().split())
        other = seen.setdefault(key, name)
        if other != name:
            raise TableError(
                f"{source}: {other!r} ({names[other]}) and {name!r} ({where}) differ only in case or "
                "spaces; write the class in one way"
            )


def looks_like_data(text: str) -> bool:
    """Whether a cell holds a number, a date or a mark instead of a name.

    >>> [looks_like_data(cell) for cell in ("cat", "2 cats", "1.0", "2024-01-01", "NaN")]
    [False, False, True, True, True]
    """
    return bool(_no_name(text))


def _no_name(text: str) -> str:
    """Describe a cell that is not a name; empty if it may be one."""
    stripped = text.strip()
    if not stripped:
        return "empty"
    if _NUMBER.fullmatch(stripped):
        return "a number"
    if _DATE.fullmatch(stripped):
        return "a date or time"
    return "a mark" if stripped.lower() in _NO_NAMES else ""


def check_text(text: str, what: str) -> None:
    """Refuse text that cannot be displayed: control characters, lone surrogates."""
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise TableError(
            f"{what} {text[:80]!r} holds characters that cannot be shown; is a quote not closed, or is "
            "the file in another encoding than UTF-8?"
        )


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
