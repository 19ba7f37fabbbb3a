"""Read label tables of many formats into one type; nothing here needs torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rebll_avalanche.arguments import check_path
from rebll_avalanche.errors import MissingFileError, TableError
from rebll_avalanche.tables.coco import coco_table, is_coco
from rebll_avalanche.tables.folders import read_class_folders
from rebll_avalanche.tables.grid import Grid, read_grid
from rebll_avalanche.tables.label_studio import label_studio_table
from rebll_avalanche.tables.objects import (
    is_data_frame,
    is_hugging_face,
    read_arrays,
    read_data_frame,
    read_hugging_face,
)
from rebll_avalanche.tables.table import AnnotationTable, finished, list_classes
from rebll_avalanche.tables.text import decoded, read_bytes, read_json, separated
from rebll_avalanche.tables.voc import ANNOTATIONS, read_voc_folder

__all__ = ["AnnotationTable", "read_csv", "read_table"]


def read_table(
    source: Any,
    *,
    images: str | os.PathLike[str] | None = None,
    about: Iterable[str] | None = None,
    class_names: Iterable[str] | None = None,
) -> AnnotationTable:
    """Read image labels from a file, a folder or an object.

    It may be a CSV file in long form (file, names), wide form (a column per class), or with one label per
    row (file, class, and 1 or 0 under ``present``); COCO or Label Studio JSON; a folder in VOC's layout, or
    with a folder per class; a data frame; one split of a Hugging Face data set; or a pair of images and a
    label matrix. The ``summary`` of the result describes how it was read.

    Args:
        source: The table.
        images: The folder that its file names are relative to; by default the table's own folder.
        about: The classes that it annotates, if not exactly those it names: others are ignored, and
            those without any row are negative everywhere.
        class_names: Names of the columns of a label matrix.

    Raises:
        TableError: When it cannot be read, with the location, the value and a remedy.
        MissingFileError: When it does not exist.

    >>> import numpy as np
    >>> table = read_table((["a.jpg", "b.jpg"], np.array([[1, 0], [np.nan, 1]])), class_names=["car", "dog"])
    >>> table.class_names, table.labels.tolist()
    (('car', 'dog'), [[1.0, 0.0], [nan, 1.0]])
    """
    check_path("images", images)
    wanted = None if about is None else list_classes(about)
    folder = None if images is None else Path(images).expanduser()
    if isinstance(source, AnnotationTable):
        return source if wanted is None else source.about(wanted)
    if isinstance(source, str | os.PathLike):
        check_path("a table", source)
        table = _read_path(Path(source).expanduser(), folder, wanted)
    elif is_data_frame(source):
        table = _placed(read_data_frame(source, wanted), folder)
    elif is_hugging_face(source) or (isinstance(source, dict) and source):
        table = read_hugging_face(source)
    elif isinstance(source, tuple | list) and len(source) == 2:
        table = _placed(read_arrays(source[0], source[1], class_names), folder)
    else:
        raise TableError(
            "a table must be a file, a folder, a data frame, a data set, or a pair of images and a label "
            f"matrix, got {type(source).__name__}"
        )
    return finished(table, wanted)


def read_csv(
    path: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str] | None = None,
    about: Iterable[str] | None = None,
) -> AnnotationTable:
    """Read a delimited text file; see :func:`read_table`."""
    check_path("images", images)
    if path is None:
        raise TableError("labels must be the path of a file, got None")
    check_path("labels", path)
    wanted = None if about is None else list_classes(about)
    folder = None if images is None else Path(images).expanduser()
    return finished(_read_delimited(Path(path).expanduser(), folder, wanted), wanted)


def _read_path(path: Path, images: Path | None, about: list[str] | None) -> AnnotationTable:
    if path.is_dir():
        return read_voc_folder(path) if (path / ANNOTATIONS).is_dir() else read_class_folders(path)
    if path.suffix.lower() != ".json":
        return _read_delimited(path, images, about)
    folder = path.parent if images is None else images
    content = read_json(path)
    if is_coco(content):
        return _placed(coco_table(content, str(path)), folder)
    table = label_studio_table(content, str(path), exists=lambda name: (folder / name).exists())
    return _placed(table, folder)


def _read_delimited(path: Path, images: Path | None, about: list[str] | None) -> AnnotationTable:
    if not path.exists():
        raise MissingFileError(f"no label file at {path}")
    text, encoding = decoded(read_bytes(path), str(path))
    rows, separator = separated(text, str(path))
    notes = () if encoding.startswith("utf-8") else (f"in {encoding}",)
    between = ";|" if separator == "," else ";|,"
    grid = Grid([], rows, str(path), between, notes)
    return _placed(read_grid(grid, about), path.parent if images is None else images)


def _placed(table: AnnotationTable, folder: Path | None) -> AnnotationTable:
    """Resolve relative image paths against a folder."""
    if folder is None or table.pictures is not None:
        return table
    return replace(table, images=tuple(str(folder / name) for name in table.images))
