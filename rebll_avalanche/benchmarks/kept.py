"""Pictures that stay decoded, because a memory replays the same few with every batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

from rebll_avalanche.benchmarks.images import Source
from rebll_avalanche.benchmarks.transforms import Picture, resize

# Whatever does not fit is decoded whenever it is needed: 3500 pictures of 224 px do.
LIMIT_BYTES = 512 * 2**20


class KeptPictures:
    """A source of pictures that decodes those asked for by :meth:`keep` only once.

    Args:
        files: Where pictures come from.
        side: Keep squares of this side; only right where every transform begins with making them.

    Attributes:
        kept_bytes: Memory that decoded pictures take.
    """

    pictures = True

    def __init__(self, files: Source, side: int | None = None) -> None:
        self.files = files
        self.side = side
        self.kept_bytes = 0
        self._wanted_by: dict[int, frozenset[int]] = {}
        self._wanted: frozenset[int] = frozenset()
        self._arrays: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Picture:
        array = self._arrays.get(index)
        if array is not None:
            return array
        picture: Image.Image = self.files[index]
        if index in self._wanted:
            if self.side is not None:
                picture = resize(picture, self.side)
            array = np.array(picture)
            if self.kept_bytes + array.nbytes <= LIMIT_BYTES:
                self._arrays[index] = array
                self.kept_bytes += array.nbytes
        return picture

    def keep(self, experience: int, indices: Iterable[int]) -> None:
        """From now on keep these pictures for an experience, instead of those named before."""
        self._wanted_by[experience] = frozenset(indices)
        self._wanted = frozenset().union(*self._wanted_by.values())
        for index in self._arrays.keys() - self._wanted:
            self.kept_bytes -= self._arrays.pop(index).nbytes

    def __getstate__(self) -> dict[str, Any]:
        # A worker decodes what it needs; it gets no copy of the pictures.
        return {**self.__dict__, "_arrays": {}, "kept_bytes": 0}
