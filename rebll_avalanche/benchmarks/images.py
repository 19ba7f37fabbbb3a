"""Where a sample's input comes from: picture files, arrays, or somebody else's data set.

A source has a length and gives one input per index; nothing is decoded before it is asked for.
Pictures are RGB ``PIL.Image`` until a transform makes them tensors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

# How each format begins and ends; a file that has both was written completely.
COMPLETE_FILES = (
    (b"\xff\xd8\xff", b"\xff\xd9"),  # JPEG
    (b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"),  # PNG
)


class Source(Protocol):
    """Inputs by index; ``pictures`` says whether they still have to be made tensors."""

    pictures: bool

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


class ImageFiles:
    """Pictures read from files, one decode per access.

    Args:
        paths: One file per sample, or the ``encoded`` paths of another such object.
        problems: What is known to be wrong with files, by index, if somebody has looked already.
    """

    pictures = True

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]] | np.ndarray,
        problems: dict[int, str] | None = None,
    ) -> None:
        # One array of bytes instead of many strings: workers share it without copying.
        if not isinstance(paths, np.ndarray):
            paths = np.array([os.fsencode(path) for path in paths], dtype=np.bytes_)
        self.encoded = paths
        self._problems = problems

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> Image.Image:
        return decode(os.fsdecode(self.encoded[index]))

    def path(self, index: int) -> Path:
        """The file of one sample."""
        return Path(os.fsdecode(self.encoded[index]))

    def problems(self) -> dict[int, str]:
        """What is wrong with which files, found out from both ends of each, without decoding."""
        if self._problems is None:
            found = ((index, file_problem(self.path(index))) for index in range(len(self)))
            self._problems = {index: problem for index, problem in found if problem}
        return self._problems


class ImageArray:
    """Pictures in memory.

    Args:
        array: ``uint8 [samples, height, width, 3]``.
    """

    pictures = True

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> Image.Image:
        return Image.fromarray(self.array[index])


class Rows:
    """Inputs that are already numbers: feature vectors, tables, tensors of any shape.

    Args:
        data: One row per sample.
    """

    pictures = False

    def __init__(self, data: Tensor | np.ndarray) -> None:
        self.data = torch.as_tensor(data)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Tensor:
        return self.data[index]


class Inputs:
    """The inputs of a map-style data set whose items are ``x`` or start with it, as in ``(x, y)``.

    Args:
        dataset: Anything with a length and items by index.
    """

    pictures = False

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        return item[0] if isinstance(item, tuple | list) else item


def as_source(images: Any) -> Source:
    """The source behind what a user passes as images.

    Raises:
        ValueError: When it has no length or no items by index.
    """
    if isinstance(images, ImageFiles | ImageArray | Rows | Inputs):
        return images
    if isinstance(images, np.ndarray | Tensor):
        if images.ndim == 4 and images.shape[-1] == 3 and images.dtype in (np.uint8, torch.uint8):
            return ImageArray(np.asarray(images))
        return Rows(images)
    if not hasattr(images, "__len__") or not hasattr(images, "__getitem__"):
        raise ValueError(
            f"images must be paths, an array, or a map-style data set, got {type(images).__name__}"
        )
    if len(images) and isinstance(images, Sequence) and isinstance(images[0], str | os.PathLike):
        return ImageFiles(images)
    return Inputs(images)


def decode(path: str | Path) -> Image.Image:
    """Read one picture.

    Raises:
        ValueError: When it is not one, with its path.
    """
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(
            f"cannot decode {path}: {error}; repair it, or leave such files out with "
            "on_error='skip' and image_cache=..., which decodes each file once before training"
        ) from error


def file_problem(path: Path) -> str | None:
    """What is wrong with a picture file, or None; looks at both ends and decodes only in doubt."""
    try:
        with open(path, "rb") as file:
            head = file.read(16)
            file.seek(-min(os.fstat(file.fileno()).st_size, 64), os.SEEK_END)
            tail = file.read()
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return str(error)
    if not head:
        return "empty"
    if any(head.startswith(start) and end in tail for start, end in COMPLETE_FILES):
        return None
    try:
        decode(path)
    except ValueError as error:
        return str(error.__cause__)
    return None
