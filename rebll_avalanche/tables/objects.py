"""Read tables from Python objects: data frames, Hugging Face data sets, arrays.

None of their libraries is imported; objects are recognised by their attributes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from rebll_avalanche.errors import TableError
from rebll_avalanche.tables.grid import Grid, read_grid
from rebll_avalanche.tables.table import (
    UNKNOWN,
    AnnotationTable,
    check_names,
    from_names,
    merged_rows,
)
from rebll_avalanche.words import brief

# A character that does not occur in names, to join lists of names in one cell.
_BETWEEN = "\x1f"


def is_data_frame(given: Any) -> bool:
    """Whether an object is a data frame of pandas or polars."""
    return hasattr(given, "columns") and (hasattr(given, "iloc") or hasattr(given, "iter_rows"))


def read_data_frame(frame: Any, about: list[str] | None = None) -> AnnotationTable:
    """Read a data frame in long or wide form; cells may hold lists of names.

    The image files may also be its index.
    """
    header = [str(name) for name in frame.columns]
    if hasattr(frame, "iloc"):
        rows = [list(row) for row in frame.itertuples(index=False, name=None)]
        index = [str(key) for key in frame.index]
        if any(os.path.splitext(key)[1] for key in index):
            header = ["file", *header]
            rows = [[key, *row] for key, row in zip(index, rows, strict=True)]
    else:
        rows = [list(row) for row in frame.iter_rows()]
    cells = [(number, [_cell(value) for value in row]) for number, row in enumerate(rows, start=1)]
    return read_grid(Grid(header, cells, "the data frame", separators=f";|{_BETWEEN}"), about)


def _cell(value: Any) -> str:
    """Convert a value to the text of a CSV cell."""
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return _BETWEEN.join(str(name) for name in value)
    text = str(value).strip()
    return "" if text in ("None", "nan", "NaT", "<NA>") else text


def is_hugging_face(given: Any) -> bool:
    """Whether an object is a ``datasets.Dataset``, or looks like one."""
    return all(hasattr(given, name) for name in ("features", "column_names", "__getitem__"))


class Column(Sequence[Any]):
    """One column of a data set, read row by row, so that images are decoded on access."""

    def __init__(self, dataset: Any, name: str) -> None:
        self.dataset = dataset
        self.name = name

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[int(index)][self.name]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))


def read_hugging_face(dataset: Any) -> AnnotationTable:
    """Read one split of a Hugging Face data set: a column of images, and one of ``ClassLabel`` or names.

    It annotates all names of its ``ClassLabel``.
    """
    if isinstance(dataset, dict):
        raise TableError(f"choose one split of the data set: {', '.join(map(str, dataset))}")
    features = dict(dataset.features)
    pictures = [name for name, kind in features.items() if type(kind).__name__ == "Image"]
    if len(pictures) != 1:
        raise TableError(
            f"the data set needs one column of pictures, it has {len(pictures)} among "
            f"{', '.join(features)}; cast it: dataset.cast_column(name, datasets.Image())"
        )
    known = {
        name: names for name, kind in features.items() if (names := _class_names(kind)) is not None
    }
    if len(known) != 1:
        raise TableError(
            f"which column of the data set holds the labels? {', '.join(known) or 'none'} may; one must be "
            "of type ClassLabel or a list of names; drop others with dataset.remove_columns(...)"
        )
    ((chosen, names),) = known.items()
    found: dict[str, list[str]] = {}
    for row, value in enumerate(dataset[chosen]):
        given = value if isinstance(value, list | tuple | np.ndarray) else [value]
        found[f"row {row}"] = [_name_of(entry, names, row) for entry in given if entry is not None]
    where = dict.fromkeys(names, "its classes")
    check_names(where | {n: row for row, present in found.items() for n in present}, "the data set")
    table = from_names(
        found,
        read_as=f"a data set with labels in {chosen!r}",
        source="the data set",
        pictures=Column(dataset, pictures[0]),
    )
    return table.about(sorted(names)) if names else table


def _class_names(kind: Any) -> list[str] | None:
    """Class names of a feature; empty if it holds free text; None if it holds no labels."""
    inner = kind[0] if isinstance(kind, list) and kind else getattr(kind, "feature", None)
    if inner is not None:
        if getattr(inner, "dtype", None) == "string":
            return []
        kind = inner
    names = getattr(kind, "names", None)
    return [str(name) for name in names] if isinstance(names, list | tuple) else None


def _name_of(entry: Any, names: list[str], row: int) -> str:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, int | np.integer) and 0 <= entry < len(names):
        return names[int(entry)]
    raise TableError(f"the data set, row {row}: {entry!r} is none of its {len(names)} classes")


def read_arrays(images: Any, labels: Any, class_names: Iterable[str] | None) -> AnnotationTable:
    """Build a table from images and a label matrix of 1, 0, NaN for unknown or -1 for uncertain."""
    if class_names is None:
        raise TableError("a matrix of labels needs the names of its columns: class_names=")
    if not isinstance(class_names, Iterable) or isinstance(class_names, str):
        raise TableError(f"class_names must be a list of texts, got {brief(class_names)}")
    names = list(class_names)
    if not all(isinstance(name, str) for name in names):
        raise TableError(f"class_names must be texts, got {brief(names)}")
    check_names({name: f"column {i}" for i, name in enumerate(names)}, "class_names")
    if len(set(names)) < len(names):
        raise TableError("class_names holds a name twice; every column needs its own")
    try:
        # In two steps: torch's tensors do not know the question of a copy.
        matrix = np.asarray(labels, dtype=np.float32).copy()
        count = len(images)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise TableError(
            f"pictures and a matrix of labels do not make a table: {str(error)[:200]}"
        ) from error
    if matrix.ndim != 2 or matrix.shape != (count, len(names)):
        raise TableError(
            f"{count} pictures and {len(names)} class names need labels of shape "
            f"{(count, len(names))}, got {matrix.shape}"
        )
    matrix[matrix == -1] = UNKNOWN
    wrong = ~(np.isnan(matrix) | (matrix == 0) | (matrix == 1))
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise TableError(
            f"labels must be 1, 0, NaN or -1, got {matrix[row, column]:g} in row {row} under "
            f"{names[column]!r}"
        )
    paths = [os.path.normpath(entry) for entry in images if isinstance(entry, str | os.PathLike)]
    if paths and len(paths) < count:
        raise TableError(f"{len(paths)} of {count} pictures are paths; all or none must be")
    if paths:
        paths, matrix = merged_rows(paths, matrix, names, "rows", range(count))
    return AnnotationTable(
        tuple(paths) or tuple(f"row {row}" for row in range(count)),
        tuple(names),
        matrix,
        "pictures and a matrix of labels",
        "the arrays",
        pictures=None if paths else images,
        closed=False,
    )
