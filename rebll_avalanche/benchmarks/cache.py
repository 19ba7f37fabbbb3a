"""Disk cache of decoded, resized images, so that an epoch does not decode JPEG files.

One folder holds ``images.npy`` (``uint8 [files, side, side, 3]``, mapped into memory and shared by all
workers and runs) and a checksum per image. Its name is derived from the size and the content of the files,
so copies of a data set share a cache and a changed image gives a new one. It is built under a temporary
name and renamed at the end, so it is always complete; of two processes that build it at the same time,
the second discards its copy.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import warnings
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tqdm import tqdm

from rebll_avalanche.arrays import mapped_array
from rebll_avalanche.benchmarks.contents import Content
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.transforms import resize
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.files import new_folder, remove_folder
from rebll_avalanche.pictures import VERSION, read_picture

# Images whose checksum is compared on open, spread over the whole file, to detect most damage before
# training. The others are compared when they are first read.
SPOT_CHECKS = 64
BLOCK = 1 << 20


class ImageCache:
    """Images decoded once, at training size; see :func:`cached_images`.

    Args:
        folder: A folder built by :func:`cached_images`.
        shape: Expected shape of the array of all images.

    Raises:
        DamagedError: When the content of the folder is damaged.
    """

    pictures = True

    def __init__(self, folder: Path, shape: tuple[int, ...]) -> None:
        self.folder = folder
        self.array = mapped_array(folder / "images.npy")
        self._checksums = mapped_array(folder / "checksums.npy")
        if self.array.shape != shape or self.array.dtype != np.uint8:
            raise DamagedError(f"holds {self.array.dtype} {self.array.shape}, not uint8 {shape}")
        if self._checksums.shape != shape[:1]:
            raise DamagedError(f"holds {self._checksums.shape} checksums for {shape[0]} pictures")
        self._checked = np.zeros(shape[0], dtype=bool)
        self.check(np.unique(np.linspace(0, shape[0] - 1, SPOT_CHECKS).astype(int)).tolist())

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> np.ndarray:
        if not self._checked[index]:
            self.check([index])
        picture: np.ndarray = self.array[index]
        return picture

    def check(self, indices: Iterable[int]) -> None:
        """Compare images with their checksums, each once.

        Raises:
            DamagedError: Naming the first damaged image.
        """
        for index in indices:
            if self._checked[index]:
                continue
            if zlib.crc32(self.array[index]) != self._checksums[index]:
                raise DamagedError(
                    f"image {index} in {self.folder} is damaged; delete that folder and run the same "
                    "command again, which rebuilds it and continues"
                )
            self._checked[index] = True

    def __getstate__(self) -> dict[str, Any]:
        # A worker or a checkpoint gets the path, not a copy of all images.
        return {**self.__dict__, "array": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.array = mapped_array(self.folder / "images.npy")


def cached_images(
    files: ImageFiles, found: Sequence[Content], image_size: int, folder: str | Path
) -> ImageCache:
    """Open the cache of some image files, or build it first.

    Args:
        files: The image files.
        found: Result of ``files.contents()``; unreadable images stay black.
        image_size: Side of the square images.
        folder: Folder of all caches, for any number of data sets and sizes.
    """
    place = Path(folder).expanduser() / f"{image_size}px-{_key(found, image_size)}"
    shape = (len(files), image_size, image_size, 3)
    if place.exists():
        try:
            return ImageCache(place, shape)
        except (ValueError, OSError) as error:
            warnings.warn(f"{place} is damaged ({error}) and will be rebuilt", stacklevel=2)
            remove_folder(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(place) as draft:
        _build(files, found, image_size, shape, draft)
    return ImageCache(place, shape)


def _key(found: Sequence[Content], image_size: int) -> str:
    digest = hashlib.sha256(f"{VERSION} {image_size}".encode())
    for content in found:
        digest.update(f"\n{content.digest}".encode())
    return digest.hexdigest()[:20]


def _build(
    files: ImageFiles,
    found: Sequence[Content],
    image_size: int,
    shape: tuple[int, ...],
    draft: Path,
) -> None:
    images = _room_for(draft / "images.npy", shape)
    checksums = np.zeros(len(files), dtype=np.uint32)

    def fill(index: int) -> None:
        if not found[index].problem:
            images[index] = np.asarray(resize(read_picture(files.path(index)), image_size))
        checksums[index] = zlib.crc32(images[index])

    # Pillow releases the global interpreter lock while decoding, so threads use all cores.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        work = pool.map(fill, range(len(files)))
        for _ in tqdm(work, total=len(files), desc=f"decoding to {image_size} px", disable=None):
            pass
    images.flush()
    np.save(draft / "checksums.npy", checksums)


def _room_for(path: Path, shape: tuple[int, ...]) -> np.memmap[Any, np.dtype[np.uint8]]:
    """Create a memory-mapped file with all its disk space allocated.

    A sparse file allocates space on writing, and if the disk is full the process is killed. Allocating
    it here raises an error instead.

    Raises:
        OSError: When the disk has no room.
    """
    try:
        images = np.lib.format.open_memmap(path, "w+", np.uint8, shape)
        with open(path, "r+b") as file:
            _reserve(file, path.stat().st_size)
    except OSError as error:
        needed = f"{math.prod(shape) / 1e6:.0f} MB of decoded images do not fit"
        way_out = f"({error.strerror}); free the space, or choose another image_cache folder"
        raise OSError(error.errno, f"{needed} {way_out}", str(path.parent.parent)) from error
    return images


def _reserve(file: BinaryIO, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    for start in range(0, size, BLOCK):  # what stands there already, the gap's zeros too
        file.seek(start)
        block = file.read(BLOCK)
        file.seek(start)
        file.write(block)
    file.flush()
    os.fsync(file.fileno())
