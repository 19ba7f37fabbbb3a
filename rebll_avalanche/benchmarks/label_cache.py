"""Label matrices kept beside a fingerprint of the annotations that they were read from."""

from __future__ import annotations

import hashlib
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rebll_avalanche.benchmarks.images import ImageFiles


@dataclass(frozen=True)
class LabelTable:
    """What the annotations of one split say.

    Attributes:
        files: One picture file per sample.
        labels: ``float32 [samples, classes]``.
        class_names: One per column.
    """

    files: ImageFiles
    labels: np.ndarray
    class_names: list[str]


def cached_table(
    annotations: Iterable[str | Path], settings: str, read: Callable[[], LabelTable]
) -> LabelTable:
    """The label table of some annotation files, read only if they have changed since the last time.

    Args:
        annotations: Every file and folder that the table depends on.
        settings: Everything else that it depends on.
        read: Reads the annotations.
    """
    digest = hashlib.sha256(settings.encode())
    for path in annotations:
        status = os.stat(path)
        digest.update(f"\n{path} {status.st_size} {status.st_mtime_ns}".encode())
    place = cache_folder() / "labels" / f"{digest.hexdigest()[:20]}.npz"
    if place.exists():
        try:
            return _load(place)
        except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile):
            warnings.warn(f"{place} is damaged; annotations are read again", stacklevel=2)
    table = read()
    table.files.problems()
    try:
        _save(place, table)
    except OSError as error:
        warnings.warn(f"labels are not cached: {error}", stacklevel=2)
    return table


def cache_folder() -> Path:
    """Where this package keeps what it can make again: ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rebll_avalanche"


def _save(place: Path, table: LabelTable) -> None:
    problems = table.files.problems()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f"{place.name}.{os.getpid()}.part")
    with open(draft, "wb") as file:
        np.savez(
            file,
            files=table.files.encoded,
            labels=table.labels,
            class_names=table.class_names,
            problem_indices=np.array(list(problems), dtype=np.int64),
            problem_texts=np.array(list(problems.values()), dtype=np.str_),
        )
    draft.replace(place)


def _load(place: Path) -> LabelTable:
    with open(place, "rb") as file, np.load(file) as stored:
        texts = stored["problem_texts"].tolist()
        problems = dict(zip(stored["problem_indices"].tolist(), texts, strict=True))
        files = ImageFiles(stored["files"], problems)
        return LabelTable(files, stored["labels"], stored["class_names"].tolist())
