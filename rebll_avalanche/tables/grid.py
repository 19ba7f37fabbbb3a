"""Interpret rows and columns: find the file and label columns, and which form the table has.

Long: a file and the names of its classes. Wide: a file and a column per class, with 1, 0, blank or NaN
for unknown, -1 for uncertain. Single labels: a file, the name of one class, and the same marks in a column
``present``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath

import numpy as np

from rebll_avalanche.errors import TableError
from rebll_avalanche.pictures import SUFFIXES
from rebll_avalanche.tables.table import (
    UNKNOWN,
    AnnotationTable,
    check_names,
    check_text,
    from_names,
    looks_like_data,
    merged_rows,
)
from rebll_avalanche.tables.text import NumberedRow

_Reader = Callable[["Grid", list[str], list[int]], AnnotationTable]

SPLIT_NAMES = ("train", "test")
_FILE_WORDS = frozenset(
    {"file", "filename", "filepath", "image", "img", "path", "picture", "photo"}
)
_LABEL_WORDS = frozenset(
    {"label", "labels", "class", "classes", "tag", "tags", "category", "categories", "annotation",
     "annotations"}
)  # fmt: skip
# Alone they mark a label column; in "place name" they do not.
_LABEL_WORDS_ALONE = _LABEL_WORDS | {"object", "objects", "name", "names", "species"}
# Header of the marks where each row holds one label.
_PRESENT = "present"
_OTHER_WORDS = frozenset({"id", "index", "date", "time", "timestamp", "fold"})
_MARKS = {
    "true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0, "": UNKNOWN, "nan": UNKNOWN, "na": UNKNOWN,
    "n/a": UNKNOWN, "null": UNKNOWN, "none": UNKNOWN, "?": UNKNOWN, "unknown": UNKNOWN,
}  # fmt: skip
_NUMBER_MARKS = {1.0: 1.0, 0.0: 0.0, -1.0: UNKNOWN}


@dataclass(frozen=True)
class Grid:
    """The raw cells of a table.

    Attributes:
        header: Column names; empty if there is no header.
        rows: All other rows, with line numbers.
        source: Name of the table, for messages.
        separators: Characters between several names in one cell.
        notes: Remarks for the user on how it was read.
    """

    header: list[str]
    rows: list[NumberedRow]
    source: str
    separators: str = ";|"
    notes: tuple[str, ...] = ()

    def cells(self, column: int) -> list[tuple[int, str]]:
        """The non-blank cells of a column, with line numbers."""
        return [(line, row[column]) for line, row in self.rows if column < len(row) and row[column]]

    def column(self, number: int) -> str:
        """Name of a column, for messages."""
        return repr(self.header[number]) if self.header else f"column {number + 1}"


def read_grid(grid: Grid, about: list[str] | None = None) -> AnnotationTable:
    """Convert a grid to a table; requested classes may tell which form it has."""
    grid = _with_header(grid)
    file = _file_column(grid)
    split = next((i for i, name in enumerate(grid.header) if name.lower() == "split"), None)
    rest = [
        column
        for column in range(max([len(row) for _, row in grid.rows] + [len(grid.header)], default=0))
        if column not in (file, split) and grid.cells(column)
    ]
    read, chosen = _form(grid, rest, about)
    used = {file, split, *chosen}
    left_out = [repr(name) for i, name in enumerate(grid.header) if i not in used and name]
    if left_out:
        grid = replace(grid, notes=(*grid.notes, f"left out: {', '.join(left_out)}"))
    keys = _keys(grid, file)
    table = read(grid, keys, chosen)
    if split is None:
        return table
    splits = _splits(grid, keys, split)
    return replace(table, splits=tuple(splits[key] for key in table.images))


def _with_header(grid: Grid) -> Grid:
    """Use the first row as the header, if it is one and there is none yet."""
    if grid.header or not grid.rows:
        return grid
    (line, first), *others = grid.rows
    if any(_is_file(cell) for cell in first):
        if len(first) > 1 and all(_mark(cell) is not None for cell in first[1:]) and any(first[1:]):
            raise TableError(
                f"{grid.source}, line {line}: a column per class needs a header with the names of the "
                "classes, such as: file,cat,dog"
            )
        return grid
    known = any(_FILE_WORDS.intersection(_words(cell)) for cell in first)
    if not known and others and not any(_is_file(cell) for _, row in others for cell in row):
        raise TableError(
            f"{grid.source}, line {line}: cannot tell whether {first[0]!r} is a header or a picture; "
            "give the column of pictures the header 'file', and the pictures their suffix"
        )
    return replace(grid, header=first, rows=others)


def _file_column(grid: Grid) -> int:
    """Find the column of image files: by its cells, then by its name, else the first."""
    width = len(grid.header) or max((len(row) for _, row in grid.rows), default=0)
    by_content = [
        column
        for column in range(width)
        if (cells := grid.cells(column)) and all(_is_file(cell) for _, cell in cells)
    ]
    by_name = [i for i, name in enumerate(grid.header) if _FILE_WORDS.intersection(_words(name))]
    both = [column for column in by_content if column in by_name]
    return next(iter([*both, *by_content, *by_name]), 0)


def _form(grid: Grid, rest: list[int], about: list[str] | None) -> tuple[_Reader, list[int]]:
    """How to read the labels, and which columns hold them."""
    if not grid.header:
        return _long, rest
    beyond = [column for column in rest if column >= len(grid.header)]
    labelled = [column for column in rest if column not in beyond and _says_labels(grid, column)]
    # Found even if all of its cells are blank: a row without a mark must not be read as present.
    present = [column for column, name in enumerate(grid.header) if name.lower() == _PRESENT]
    if len(labelled) == len(present) == 1 and not beyond:
        return _single, [*labelled, *present]
    if labelled:
        numbered = [column for column in labelled if _share_of_marks(grid, column) == 1]
        if len(numbered) == len(labelled):
            raise TableError(
                f"{grid.source}: {grid.column(numbered[0])} holds 1, 0 and the like, and no names; write "
                "names there, or the name of the class in the header"
            )
        if beyond and max(labelled) != len(grid.header) - 1:
            _refuse_long_row(grid)
        return _long, labelled + beyond
    free = [column for column in rest if column not in beyond and not _is_aside(grid, column)]
    marked = [column for column in free if _share_of_marks(grid, column) >= 0.5]
    named = sorted({*free, *beyond} - {*marked})
    words = [
        column for column in named if not all(looks_like_data(c) for _, c in grid.cells(column))
    ]
    if marked:
        if beyond:
            _refuse_long_row(grid)
        if len(marked) == 1 and words and (not about or grid.header[marked[0]] not in about):
            raise TableError(
                f"{grid.source}: cannot tell whether {grid.column(words[0])} holds names of classes or "
                f"{grid.column(marked[0])} is a class; name the former 'labels', or remove it"
            )
        return _wide, marked
    if len(words) > 1 and not beyond:
        cells = [{cell for _, cell in grid.cells(column)} for column in words]
        for column, own in zip(words, cells, strict=True):
            if not any(own & other for other in cells if other is not own):
                raise TableError(
                    f"{grid.source}: which column holds the labels, "
                    f"{' or '.join(grid.column(i) for i in words)}? {grid.column(column)} has nothing "
                    "in common with the others; name the right one 'labels'"
                )
    return _long, words


def _refuse_long_row(grid: Grid) -> None:
    line, row = next((line, row) for line, row in grid.rows if len(row) > len(grid.header))
    raise TableError(
        f"{grid.source}, line {line}: {len(row)} cells under a header of {len(grid.header)}; separate "
        "several names by ; or |, or put quotes around a cell that holds the separator"
    )


def _keys(grid: Grid, file: int) -> list[str]:
    """The picture of each row."""
    keys = []
    for line, row in grid.rows:
        name = row[file] if file < len(row) else ""
        if not name:
            raise TableError(f"{grid.source}, line {line}: the row names no picture")
        check_text(name, f"{grid.source}, line {line}: the picture")
        keys.append(os.path.normpath(name))
    return keys


def _splits(grid: Grid, keys: list[str], column: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, (line, row) in zip(keys, grid.rows, strict=True):
        split = row[column].lower() if column < len(row) else ""
        if split not in SPLIT_NAMES or found.setdefault(key, split) != split:
            raise TableError(
                f"{grid.source}, line {line}: the split of {key} must be train or test, the same in all "
                f"of its rows, got {split!r}"
            )
    return found


def _long(grid: Grid, keys: list[str], columns: list[int]) -> AnnotationTable:
    between = re.compile(f"[{re.escape(grid.separators)}]")
    found: dict[str, dict[str, None]] = {}
    names: dict[str, str] = {}
    for key, (line, row) in zip(keys, grid.rows, strict=True):
        present = found.setdefault(key, {})
        for cell in (row[column] for column in columns if column < len(row)):
            for name in filter(None, (part.strip() for part in between.split(cell))):
                check_text(name, f"{grid.source}, line {line}: the class")
                if "," in name:
                    raise TableError(
                        f"{grid.source}, line {line}: {name!r} holds a comma; separate names by ; or |"
                    )
                present[name] = None
                names.setdefault(name, f"line {line}")
    check_names(names, grid.source)
    read_as = "a file and its names per row"
    return from_names(found, read_as=read_as, source=grid.source, notes=grid.notes)


def _wide(grid: Grid, keys: list[str], columns: list[int]) -> AnnotationTable:
    columns = sorted(columns, key=lambda column: grid.header[column])
    names = [grid.header[column] for column in columns]
    repeated = next((name for name, following in pairwise(names) if name == following), None)
    if repeated is not None:
        raise TableError(f"{grid.source} has two columns called {repeated!r}; keep one of them")
    check_names(dict.fromkeys(names, "header"), grid.source)
    marks = []
    for line, row in grid.rows:
        cells = [row[column] if column < len(row) else "" for column in columns]
        marks.append([_mark(cell) for cell in cells])
        if None in marks[-1]:
            wrong = marks[-1].index(None)
            raise TableError(
                f"{grid.source}, line {line}: {cells[wrong]!r} under {names[wrong]!r}; a column per class "
                "holds 1, 0, blank for unknown or -1 for uncertain. If it is not a class, remove it"
            )
    return _open(grid, keys, names, np.array(marks, np.float32), "one column per class")


def _single(grid: Grid, keys: list[str], columns: list[int]) -> AnnotationTable:
    cells = [
        [row[column] if column < len(row) else "" for column in columns] for _, row in grid.rows
    ]
    lines = [f"line {line}" for line, _ in grid.rows]
    found = {name: line for (name, _), line in zip(cells, lines, strict=True)}
    check_names(found, grid.source)
    names = sorted(found)
    labels = np.full((len(cells), len(names)), UNKNOWN, np.float32)
    for row, (name, cell) in enumerate(cells):
        mark = _mark(cell)
        if mark is None:
            raise TableError(
                f"{grid.source}, {lines[row]}: {cell!r} under {_PRESENT!r}; it holds 1, 0 or blank for "
                "unknown"
            )
        labels[row, names.index(name)] = mark
    return _open(grid, keys, names, labels, "one label per row")


def _open(
    grid: Grid, keys: list[str], names: list[str], labels: np.ndarray, read_as: str
) -> AnnotationTable:
    """A table that says nothing about what it does not mark; ``labels`` has the rows of the grid."""
    lines = (line for line, _ in grid.rows)
    images, merged = merged_rows(keys, labels, names, f"{grid.source}: lines", lines)
    return AnnotationTable(
        tuple(images),
        tuple(names),
        merged,
        read_as=read_as,
        source=grid.source,
        notes=grid.notes,
        closed=False,
    )


@lru_cache(maxsize=4096)  # millions of cells hold few different values
def _mark(cell: str) -> float | None:
    """1, 0 or NaN for unknown; None for any other cell."""
    known = _MARKS.get(cell.lower())
    if known is not None:
        return known
    try:
        return _NUMBER_MARKS.get(float(cell))
    except ValueError:
        return None


def _share_of_marks(grid: Grid, column: int) -> float:
    cells = [cell for _, cell in grid.cells(column)]
    return sum(_mark(cell) is not None for cell in cells) / len(cells)


def _words(header: str) -> list[str]:
    """The words of a header.

    >>> _words("Image_Index 2")
    ['image', 'index']
    """
    return re.findall(r"[^\W\d_]+", header.lower())


def _says_labels(grid: Grid, column: int) -> bool:
    words = _words(grid.header[column])
    return bool(words) and (words[-1] in _LABEL_WORDS or _LABEL_WORDS_ALONE.issuperset(words))


def _is_aside(grid: Grid, column: int) -> bool:
    """Whether a header excludes a class: blank, a data frame's row numbers, a date."""
    header = grid.header[column]
    words = _words(header)
    if not header or re.fullmatch(r"unnamed: \d+", header.lower()):
        return True
    return bool(words) and _OTHER_WORDS.issuperset(words)


def _is_file(cell: str) -> bool:
    return PurePath(cell).suffix.lower() in SUFFIXES
