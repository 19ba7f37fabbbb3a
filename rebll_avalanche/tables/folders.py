"""Read images from one folder per class."""

from __future__ import annotations

import os
from pathlib import Path

from rebll_avalanche.errors import MissingFileError, TableError
from rebll_avalanche.pictures import SUFFIXES
from rebll_avalanche.tables.grid import SPLIT_NAMES
from rebll_avalanche.tables.table import AnnotationTable, check_names, from_names

_OTHER_SPLITS = frozenset({"val", "valid", "validation", "dev"})


def read_class_folders(folder: str | os.PathLike[str]) -> AnnotationTable:
    """Label images by the name of their folder, at any depth.

    Top folders ``train`` and ``test`` are splits, each with a folder per class.
    """
    place = Path(folder)
    inside = _folders(place)
    tops = {path.name.lower() for path in inside}
    if tops & _OTHER_SPLITS and tops <= _OTHER_SPLITS | set(SPLIT_NAMES):
        raise TableError(
            f"{place} is divided into {', '.join(sorted(tops))}; read these folders one by one, or keep "
            "only train and test"
        )
    found: dict[str, list[str]] = {}
    splits: list[str] = []
    divided = bool(tops) and tops <= set(SPLIT_NAMES)
    groups = [(top.name.lower(), sub) for top in inside for sub in _folders(top)] if divided else [
        ("", sub) for sub in inside
    ]  # fmt: skip
    check_names({sub.name: str(sub) for _, sub in groups}, str(place))
    for split, sub in groups:
        for path in _pictures(sub):
            found[path] = [sub.name]
            splits.append(split)
    if not found:
        raise MissingFileError(
            f"there is no picture in a folder of {place}; create one folder of images per class"
        )
    return from_names(
        found,
        read_as="a folder per class",
        source=str(place),
        splits=tuple(splits) if divided else None,
    )


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(
            path for path in place.iterdir() if path.is_dir() and path.name[0] not in "._"
        )
    except OSError as error:
        raise TableError(f"cannot read {place}: {error.strerror}") from error


def _pictures(place: Path) -> list[str]:
    return sorted(
        os.path.join(root, name)
        for root, _, names in os.walk(place)
        for name in names
        if os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")
    )
