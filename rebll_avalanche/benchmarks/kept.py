"""Keep replayed images decoded in memory, because every batch reuses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

from rebll_avalanche.benchmarks.images import Source
from rebll_avalanche.benchmarks.transforms import Picture, resize

# Enough for 3500 images of 224 px; those beyond the limit are decoded on each access.
LIMIT_BYTES = 512 * 2**20


class KeptPictures:
    """A source of images that decodes those named in :meth:`keep` only once.

    Args:
        files: Source of the images.
        side: Keep squares of this side; valid only if every transform starts with this resizing.

    Attributes:
        kept_bytes: Memory that decoded pictures take.
    """

    pictures = True

    def __init__(self, files: Source, side: int | None = None) -> None:
        self.files = files
        self.side = side
        self.kept_bytes = 0
        self._wanted_by: dict[int, frozenset[int]] = {}
        self._wanted: Counter[int] = Counter()  # by how many experiences
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
        """Keep these images of an experience, instead of those named before."""
        before, now = self._wanted_by.get(experience, frozenset()), frozenset(indices)
        self._wanted_by[experience] = now
        # Counted, because a union over all experiences for each of them would be quadratic.
        self._wanted.update(now - before)
        for index in before - now:
            self._wanted[index] -= 1
            if not self._wanted[index]:
                del self._wanted[index]
                if index in self._arrays:
                    self.kept_bytes -= self._arrays.pop(index).nbytes

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes decode what they need; they get no copy of the images.
        return {**self.__dict__, "_arrays": {}, "kept_bytes": 0}
