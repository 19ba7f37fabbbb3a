"""Cache of label matrices, keyed by a hash of the annotation files."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from rebll_avalanche.arrays import read_arrays
from rebll_avalanche.benchmarks.contents import cache_folder, contents
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.files import ABANDONED, replacing, sweep_drafts


@dataclass(frozen=True)
class LabelTable:
    """The annotations of one split.

    Attributes:
        images: The folder of the images.
        names: One file in it per sample.
        labels: ``float32 [samples, classes]``.
        class_names: One per column.
    """

    images: Path
    names: list[str]
    labels: np.ndarray
    class_names: list[str]

    @cached_property
    def files(self) -> ImageFiles:
        """The pictures."""
        return ImageFiles([f"{self.images}/{name}" for name in self.names])


def cached_table(
    annotations: Sequence[str | Path],
    settings: str,
    images: Path,
    read: Callable[[], tuple[list[str], np.ndarray, list[str]]],
) -> LabelTable:
    """The label table of some annotation files, from the cache if their content is known.

    Args:
        annotations: Every file that the table depends on.
        settings: Everything else that it depends on.
        images: The folder of the images; not part of the key, so it may move.
        read: Reads the annotations: image names, labels, class names.
    """
    digest = hashlib.sha256(settings.encode())
    for content in contents([str(path) for path in annotations], doing="reading annotations"):
        digest.update(f"\n{content.digest}".encode())
    place = cache_folder() / "labels" / f"{digest.hexdigest()[:20]}.npz"
    if place.exists():
        try:
            return LabelTable(images, *_load(place))
        except (DamagedError, KeyError):
            warnings.warn(f"{place} is damaged; annotations are read again", stacklevel=2)
    table = LabelTable(images, *read())
    try:
        _save(place, table)
    except OSError as error:
        warnings.warn(f"labels are not cached: {error}", stacklevel=2)
    return table


def _save(place: Path, table: LabelTable) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    sweep_drafts(place.parent, older_than=ABANDONED)
    with replacing(place) as stream:
        np.savez(
            stream,
            names=np.array([os.fsencode(name) for name in table.names], dtype=np.bytes_),
            labels=table.labels,
            class_names=table.class_names,
        )


def _load(place: Path) -> tuple[list[str], np.ndarray, list[str]]:
    stored = read_arrays(place)
    names = [os.fsdecode(name) for name in stored["names"]]
    return names, stored["labels"], stored["class_names"].tolist()
