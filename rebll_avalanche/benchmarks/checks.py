"""Check inputs and labels before streams are built."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.benchmarks.cache import cached_images
from rebll_avalanche.benchmarks.images import ImageFiles, Source, as_source
from rebll_avalanche.errors import MissingFileError, PictureError, TableError
from rebll_avalanche.labels import check_targets
from rebll_avalanche.words import brief


def checked_split(name: str, split: Any) -> tuple[Source, Tensor]:
    """Convert the user's images and labels of one split to a source and a label matrix."""
    if not isinstance(split, tuple | list) or len(split) != 2:
        raise TypeError(f"{name} must be a pair (images, labels), got {brief(split)}")
    images, labels = split
    try:
        source = as_source(images)
        len(source)
    except TypeError as error:
        raise TypeError(f"the images of {name} cannot be read: {error}") from error
    try:
        matrix = torch.as_tensor(labels, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TableError(f"the labels of {name} are not a matrix of numbers: {error}") from error
    if matrix.ndim != 2 or len(matrix) != len(source):
        raise ValueError(
            f"{name} has {len(source)} images, so its labels must be [{len(source)}, classes], "
            f"got {tuple(matrix.shape)}"
        )
    check_targets(matrix)
    return source, matrix


def usable_source(
    name: str,
    source: Source,
    image_size: int | None,
    image_cache: str | Path | None,
    on_error: str,
) -> tuple[Source, Tensor]:
    """Return the source or its cache, and a boolean per input: whether it can be read.

    Every file is decoded once to check this, on first use; see
    :mod:`rebll_avalanche.benchmarks.contents`. A file that becomes unreadable during a run raises an
    error with its name.
    """
    usable = torch.ones(len(source), dtype=torch.bool)
    if not isinstance(source, ImageFiles):
        return source, usable
    if image_cache is not None and image_size is None:
        raise ValueError("image_cache= requires images of one size; pass image_size=... as well")
    found = source.contents()
    problems = {index: content.problem for index, content in enumerate(found) if content.problem}
    _report(name, source, problems, on_error)
    usable[list(problems)] = False
    if image_cache is None or image_size is None:
        return source, usable
    return cached_images(source, found, image_size, image_cache), usable


def _report(name: str, files: ImageFiles, problems: dict[int, str], on_error: str) -> None:
    if not problems:
        return
    first = ", ".join(f"{files.path(i)} ({problems[i]})" for i in list(problems)[:3])
    message = f"{len(problems)} of {len(files)} {name} images cannot be used: {first}"
    if on_error == "skip":
        warnings.warn(f"{message}; they are skipped", stacklevel=4)
        return
    kind = MissingFileError if set(problems.values()) == {"missing"} else PictureError
    raise kind(
        f"{message}; repair them, or skip them: on_error='skip' in Python, --benchmark.on_error skip on "
        "a command line"
    )
