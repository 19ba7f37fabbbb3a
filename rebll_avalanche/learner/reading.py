"""Find the pictures of a table: new ones to learn from, or ones learned before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.pictures import Pictures, pictures_of
from rebll_avalanche.tables import AnnotationTable


def folder_of(table: Any, images: str | os.PathLike[str] | None) -> Path | None:
    """The folder that a table's file names are relative to."""
    if images is not None:
        return Path(images).expanduser()
    if isinstance(table, str | os.PathLike):
        path = Path(table).expanduser()
        return path if path.is_dir() else path.parent
    return None


def labelled_pictures(
    read: AnnotationTable, folder: Path | None, on_error: str = "raise"
) -> tuple[Pictures, Tensor]:
    """The pictures of a table, each once, and their labels.

    Args:
        read: The table.
        folder: The folder that its file names are relative to.
        on_error: Refuse unreadable pictures (``"raise"``), or leave them out (``"skip"``).
    """
    pictures = pictures_of(read, folder)
    labels = torch.from_numpy(read.labels).float()
    if on_error == "skip":
        rows = pictures.readable()
        pictures, labels = pictures.chosen(rows), labels[rows]
        if not rows:
            raise RebllError(f"{read.source}: none of {len(read)} pictures can be read")
    else:
        read.require_pictures()
    return pictures, labels


def known_keys(know: Knowledge, pictures: Pictures) -> list[int]:
    """The keys of learned pictures, by content if the file exists, else by name.

    Raises:
        RebllError: When some were never learned.
    """
    learned = know.learned_keys
    found, strangers = [], []
    for row, (name, given) in enumerate(zip(pictures.names, pictures.given, strict=True)):
        key: int | None
        if not isinstance(given, str) or os.path.isfile(given):
            key = pictures.chosen([row]).keys()[0]
            key = (
                key if key in learned else None
            )  # a learned picture of the same name is another one
        else:
            key = know.key_of(name)
        if key is None:
            strangers.append(name)
        else:
            found.append(key)
    if strangers:
        first = ", ".join(strangers[:3]) + (", ..." if len(strangers) > 3 else "")
        raise RebllError(
            f"{len(strangers)} of {len(pictures)} pictures were never learned: {first}; name them as the "
            "tables did that taught them (a file that was saved again has other bytes: name it by its id)"
        )
    return found
