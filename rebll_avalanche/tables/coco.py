"""COCO's JSON: lists of images, of categories, and of annotations that join them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from rebll_avalanche.errors import TableError
from rebll_avalanche.tables.table import (
    POLICIES,
    AnnotationTable,
    check_names,
    check_text,
    finished,
)
from rebll_avalanche.tables.text import read_json


def is_coco(content: Any) -> bool:
    """Whether the content of a JSON file looks like COCO's."""
    return isinstance(content, dict) and {"images", "categories"} <= content.keys()


def read_coco_file(path: str | os.PathLike[str], *, crowd: str = "drop") -> AnnotationTable:
    """As :func:`coco_table`, from a file that must hold images and categories."""
    return finished(coco_table(read_json(path), str(path), crowd=crowd))


def coco_table(content: Any, source: str, *, crowd: str = "drop") -> AnnotationTable:
    """The categories of each image; rows in order of image id, columns alphabetical.

    ``crowd`` is one of ``POLICIES``, for classes whose only instances are marked as a crowd.
    """
    if not isinstance(content, dict):
        raise _wrong(
            source, "the file", "an object with images, annotations and categories", content
        )
    categories = _by_id(content, "categories", "name", source)
    images = _by_id(content, "images", "file_name", source)
    names = sorted(categories.values())
    check_names(dict.fromkeys(names, "categories"), source)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TableError(f"{source}: two categories are called {twice!r}; rename one of them")
    columns = {key: names.index(name) for key, name in categories.items()}
    # Rows in order of image id; two entries of one file are one image.
    ordered = sorted(images, key=lambda key: (isinstance(key, str), key))
    files = {name: row for row, name in enumerate(dict.fromkeys(images[key] for key in ordered))}
    rows = {key: files[images[key]] for key in ordered}
    labels = np.zeros((len(files), len(names)), np.float32)
    plain: list[tuple[int, int]] = []
    for place, entry in enumerate(_entries(content, "annotations", source)):
        where = f"annotations[{place}]"
        row = _lookup(rows, entry, "image_id", where, source)
        column = _lookup(columns, entry, "category_id", where, source)
        if entry.get("iscrowd") in (None, 0):
            plain.append((row, column))
        else:
            labels[row, column] = POLICIES[crowd]
    if plain:  # other objects take precedence
        labels[tuple(np.array(plain).T)] = 1
    return AnnotationTable(tuple(files), tuple(names), labels, "COCO annotations", source)


def _by_id(content: dict[str, Any], section: str, field: str, source: str) -> dict[int | str, str]:
    found: dict[int | str, str] = {}
    for place, entry in enumerate(_entries(content, section, source)):
        where = f"{section}[{place}]"
        key: Any = entry.get("id")
        text = entry.get(field)
        if not _is_key(key):
            raise _wrong(source, f"{where}.id", "a number", key)
        if not isinstance(text, str) or not text.strip():
            raise _wrong(source, f"{where}.{field}", "a name", text)
        check_text(text, f"{source}, {where}: the {field}")
        if found.setdefault(key, text) != text:
            raise TableError(f"{source}: {where} has the id {key} of another entry")
    return found


def _entries(content: dict[str, Any], section: str, source: str) -> list[dict[str, Any]]:
    entries = content.get(section)
    if not isinstance(entries, list):
        raise _wrong(source, section, "a list", entries)
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise _wrong(source, f"{section}[{place}]", "an object", entry)
    return entries


def _lookup(
    known: dict[int | str, int], entry: dict[str, Any], field: str, where: str, source: str
) -> int:
    key = entry.get(field)
    if not _is_key(key) or key not in known:
        raise _wrong(source, f"{where}.{field}", "the id of an entry of the file", key)
    return known[key]


def _is_key(key: Any) -> bool:
    return isinstance(key, int | str) and not isinstance(key, bool)


def _wrong(source: str, where: str, wanted: str, found: Any) -> TableError:
    kind = type(found).__name__
    shown = f"{str(found)[:60]!r}" if isinstance(found, str | int | float) else kind
    return TableError(
        f"cannot read {source}: {where} must be {wanted}, got {'nothing' if found is None else shown}; "
        "the download is incomplete, or the file is not COCO's"
    )
