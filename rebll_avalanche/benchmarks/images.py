"""Sources of model inputs: image files, arrays, or another data set.

A source has a length and returns one input per index; images are decoded on access.
Images are RGB, as Pillow images or arrays, until a transform converts them to tensors.
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

from rebll_avalanche.benchmarks.contents import Content, contents
from rebll_avalanche.pictures import decode_picture, picture_problem, read_picture, to_rgb


class Source(Protocol):
    """Inputs by index; ``pictures`` tells whether they are images, not yet tensors."""

    pictures: bool

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


class ImageFiles:
    """Pictures read from files, one per sample, decoded on every access."""

    pictures = True

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        # One array of bytes instead of many strings: worker processes share it without copying.
        self.encoded = np.array([os.fsencode(path) for path in paths], dtype=np.bytes_)

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> Image.Image:
        return read_picture(os.fsdecode(self.encoded[index]))

    def path(self, index: int) -> Path:
        """The file of one sample."""
        return Path(os.fsdecode(self.encoded[index]))

    def contents(self) -> list[Content]:
        """A hash of each file, and whether it decodes; cached by content."""
        paths = [os.fsdecode(path) for path in self.encoded]
        return contents(paths, picture_problem, doing="checking pictures")


class EncodedPictures:
    """Pictures as the bytes of their files, JPEG or PNG."""

    pictures = True

    def __init__(self, contents: Sequence[bytes]) -> None:
        self.contents = contents

    def __len__(self) -> int:
        return len(self.contents)

    def __getitem__(self, index: int) -> Image.Image:
        return decode_picture(self.contents[index])


class ImageArray:
    """Pictures in memory: ``uint8 [samples, height, width, 3]``."""

    pictures = True

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> np.ndarray:
        picture: np.ndarray = self.array[index]
        return picture


class ImageObjects:
    """Some rows of another data set's Pillow images."""

    pictures = True

    def __init__(self, pictures: Sequence[Any], rows: Sequence[int] | np.ndarray) -> None:
        self.given = pictures
        self.rows = np.asarray(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Image.Image | np.ndarray:
        picture = self.given[int(self.rows[index])]
        return to_rgb(picture) if isinstance(picture, Image.Image) else np.asarray(picture)


class Rows:
    """Inputs that are already numbers: feature vectors, tables, tensors of any shape.

    Args:
        data: One row per sample.
        files: The images that these are features of.
    """

    pictures = False

    def __init__(self, data: Tensor | np.ndarray, files: Source | None = None) -> None:
        self.data = torch.as_tensor(data)
        self.files = files

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Tensor:
        return self.data[index]


class Inputs:
    """The inputs of a map-style data set whose items are ``x`` or start with it, as in ``(x, y)``."""

    pictures = False

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        return item[0] if isinstance(item, tuple | list) else item


def as_source(images: Any) -> Source:
    """Convert the user's images to a source.

    Raises:
        ValueError: When they have no length or no items by index.
    """
    if isinstance(images, ImageFiles | ImageArray | ImageObjects | Rows | Inputs):
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
