"""VOC's XML: one annotation file per picture."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from rebll_avalanche.errors import MissingFileError, TableError, check_regular_file
from rebll_avalanche.tables.table import POLICIES, AnnotationTable, check_names

ANNOTATIONS, IMAGES = "Annotations", "JPEGImages"


def read_objects(path: str | os.PathLike[str]) -> list[tuple[str, bool]]:
    """The class of each object in an annotation file, and whether it is marked as difficult."""
    check_regular_file(path, TableError)
    try:
        root = ElementTree.parse(path).getroot()
    # Besides its own error, the parser raises others for unknown encodings.
    except (ElementTree.ParseError, ValueError, LookupError, OSError, RecursionError) as error:
        raise TableError(f"cannot read {path}: {error}; the download is incomplete") from error
    return [
        (entry.findtext("name", "").strip(), entry.findtext("difficult", "0").strip() == "1")
        for entry in root.iter("object")
    ]


def read_voc_folder(folder: str | os.PathLike[str], *, difficult: str = "drop") -> AnnotationTable:
    """Read all annotated images of a folder with ``Annotations`` and ``JPEGImages``.

    ``difficult`` is one of ``POLICIES``, for classes whose only instances are marked as difficult.
    """
    place = Path(folder)
    files = sorted((place / ANNOTATIONS).glob("*.xml"))
    if not files:
        raise MissingFileError(f"there are no annotations in {place / ANNOTATIONS}")
    objects = {file: read_objects(file) for file in files}
    where = {name: str(file) for file, found in objects.items() for name, _ in found}
    check_names(where, str(place))
    names = sorted(where)
    columns = {name: column for column, name in enumerate(names)}
    labels = np.zeros((len(files), len(names)), np.float32)
    for row, found in zip(labels, objects.values(), strict=True):
        for wanted, value in ((True, POLICIES[difficult]), (False, 1.0)):  # others take precedence
            row[[columns[name] for name, marked in found if marked is wanted]] = value
    images = tuple(_picture_of(file, place / IMAGES) for file in files)
    return AnnotationTable(images, tuple(names), labels, "VOC annotations", str(place))


def _picture_of(annotation: Path, images: Path) -> str:
    found = [images / f"{annotation.stem}{suffix}" for suffix in (".jpg", ".jpeg", ".png", ".JPG")]
    return str(next((path for path in found if path.is_file()), found[0]))
