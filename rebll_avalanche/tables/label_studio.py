"""Label Studio's exports, JSON and JSON-MIN: tasks with choices, or with boxes that have names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

from rebll_avalanche.errors import TableError
from rebll_avalanche.tables.table import (
    UNKNOWN,
    AnnotationTable,
    check_names,
    check_text,
    from_names,
)

# Field that holds the names, by kind of result.
_VALUES = ("choices", "rectanglelabels", "polygonlabels", "brushlabels", "ellipselabels", "labels")
_PICTURE_KEYS = ("image", "img", "picture", "photo", "path", "url")
# Prefix that Label Studio adds to the name of an uploaded file.
_UPLOAD = re.compile(r"^[0-9a-f]{8}-")


def label_studio_table(
    tasks: Any, source: str, *, exists: Callable[[str], bool]
) -> AnnotationTable:
    """The choices of each annotated task.

    A class on which annotators disagree is unknown. Tasks without an annotation are left out. A task with
    an empty annotation is a negative. ``exists`` tells whether there is an image of some name, to recover
    the original names of uploads.
    """
    if not isinstance(tasks, list):
        raise TableError(
            f"{source} is neither COCO's JSON nor a list of tasks, as Label Studio exports it"
        )
    found: dict[str, list[frozenset[str]]] = {}
    where: dict[str, str] = {}
    idle = 0
    for number, task in enumerate(tasks):
        place = f"task {number + 1}"
        if not isinstance(task, dict):
            raise TableError(f"{source}, {place} is not an object")
        picture = _picture(task, f"{source}, {place}", exists)
        answers = _answers(task, f"{source}, {place}")
        idle += not answers
        for names in answers:
            found.setdefault(picture, []).append(names)
            where |= {name: where.get(name, place) for name in names}
    check_names(where, source)
    notes = (f"{idle} tasks without an annotation are left out",) if idle else ()
    table = from_names(
        {picture: frozenset().union(*answers) for picture, answers in found.items()},
        read_as="tasks of Label Studio",
        source=source,
        notes=notes,
    )
    disputed = 0
    for row, answers in enumerate(found.values()):
        for column, name in enumerate(table.class_names):
            if len({name in names for names in answers}) > 1:
                table.labels[row, column] = UNKNOWN
                disputed += 1
    if disputed:
        said = f"{disputed} labels that annotators disagree about are unknown"
        table = replace(table, notes=(*notes, said))
    return table


def _picture(task: dict[str, Any], place: str, exists: Callable[[str], bool]) -> str:
    data = task.get("data", task)
    found = [data.get(key) for key in _PICTURE_KEYS] if isinstance(data, dict) else []
    address = next((text for text in found if isinstance(text, str) and text), None)
    if address is None:
        raise TableError(f"{place} names no picture under data.image")
    check_text(address, f"{place}: the picture")
    try:
        parts = urlparse(address)
        local = parse_qs(parts.query).get("d", [""])[0]
    except ValueError as error:
        raise TableError(
            f"{place}: {address[:80]!r} is not the address of an image: {error}"
        ) from error
    name = local or unquote(parts.path)
    check_text(name, f"{place}: the picture")
    if not local and (parts.scheme or name.startswith("/data/")):
        name = name.rsplit("/", 1)[-1]
        plain = _UPLOAD.sub("", name)
        name = plain if not exists(name) and exists(plain) else name
    if not name:
        raise TableError(f"{place}: {address[:80]!r} names no file")
    return os.path.normpath(name)


def _answers(task: dict[str, Any], place: str) -> list[frozenset[str]]:
    """The class names given by each annotator."""
    if "data" not in task:  # JSON-MIN: one annotation, its names beside the picture
        asides = {*_PICTURE_KEYS, "id", "annotator", "annotation_id", "created_at", "updated_at"}
        values = [
            task[key] for key in ("choice", "choices", "label", "labels", "tag") if key in task
        ]
        rest = [task[key] for key in task if key not in asides and isinstance(task[key], dict)]
        return [frozenset(name for value in values or rest for name in _names(value, place))]
    annotations = task.get("annotations", task.get("completions", []))
    if not isinstance(annotations, list):
        raise TableError(f"{place}: annotations must be a list")
    answers = []
    for annotation in annotations:
        if not isinstance(annotation, dict):
            raise TableError(f"{place}: an annotation must be an object")
        if annotation.get("was_cancelled"):
            continue
        results = annotation.get("result", [])
        if not isinstance(results, list):
            raise TableError(f"{place}: the result of an annotation must be a list")
        values = [result.get("value") for result in results if isinstance(result, dict)]
        answers.append(frozenset(name for value in values for name in _names(value, place)))
    return answers


def _names(value: Any, place: str) -> list[str]:
    """The class names in an annotation: one, several, or some per box."""
    if isinstance(value, dict):
        return [name for key in _VALUES for name in _texts(value.get(key), place)]
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        boxes = [entry for entry in value if isinstance(entry, dict)]
        return [name for box in boxes for key in _VALUES for name in _texts(box.get(key), place)]
    return _texts(value, place)


def _texts(value: Any, place: str) -> list[str]:
    given = value if isinstance(value, list) else [] if value is None else [value]
    for name in given:
        if not isinstance(name, str):
            raise TableError(f"{place}: a choice must be a name, got {type(name).__name__}")
    return [name.strip() for name in given]
