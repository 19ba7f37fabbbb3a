"""Decoded, resized pictures kept on disk, so that an epoch reads memory instead of JPEG.

One folder holds ``images.npy`` (``uint8 [files, side, side, 3]``, mapped into memory and shared by all
workers and runs) and a checksum per picture. It is named after the size and the content of the files,
so copies of a data set share it and a changed picture gives another. It is built under another name
and renamed at the end: whoever sees the folder sees it complete, and of two processes that build it at
once the second throws its copy away.
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

from rebll_avalanche.benchmarks.contents import Content
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.transforms import resize
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.files import new_folder, remove_folder
from rebll_avalanche.pictures import VERSION, read_picture

# Pictures whose checksum is compared on open, spread over the whole file: a damaged cache is mostly found
# before training. The others are compared when they are read for the first time.
SPOT_CHECKS = 64
BLOCK = 1 << 20


class ImageCache:
    """Pictures of the size they are trained at, decoded once; see :func:`cached_images`.

    Args:
        folder: One that :func:`cached_images` has built.
        shape: What its pictures must look like together.

    Raises:
        DamagedError: When the folder does not hold what was once written there.
    """

    pictures = True

    def __init__(self, folder: Path, shape: tuple[int, ...]) -> None:
        self.folder = folder
        self.array = self._map()
        self._checksums = np.load(folder / "checksums.npy", allow_pickle=False)
        self._checked = np.zeros(len(self._checksums), dtype=bool)
        if self.array.shape != shape or self.array.dtype != np.uint8:
            raise DamagedError(f"holds {self.array.dtype} {self.array.shape}, not uint8 {shape}")
        if self._checksums.shape != shape[:1]:
            raise DamagedError(f"holds {self._checksums.shape} checksums for {shape[0]} pictures")
        self.check(np.unique(np.linspace(0, shape[0] - 1, SPOT_CHECKS).astype(int)).tolist())

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> np.ndarray:
        if not self._checked[index]:
            self.check([index])
        picture: np.ndarray = self.array[index]
        return picture

    def check(self, indices: Iterable[int]) -> None:
        """Compare pictures with their checksums, each once.

        Raises:
            DamagedError: Naming the first that is not what was written.
        """
        for index in indices:
            if self._checked[index]:
                continue
            if zlib.crc32(self.array[index]) != self._checksums[index]:
                raise DamagedError(
                    f"picture {index} in {self.folder} is not what was written; delete that folder, and "
                    "the same command builds it again and goes on"
                )
            self._checked[index] = True

    def _map(self) -> np.ndarray:
        # A plain array on the map: NumPy's own kind takes 3 us more to give out a row.
        return np.asarray(np.load(self.folder / "images.npy", mmap_mode="r"))

    def __getstate__(self) -> dict[str, Any]:
        # A worker or a checkpoint gets the address, not a copy of all pictures.
        return {**self.__dict__, "array": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.array = self._map()


def cached_images(
    files: ImageFiles, found: Sequence[Content], image_size: int, folder: str | Path
) -> ImageCache:
    """The pictures of some files as squares, decoded now unless that has been done before.

    Args:
        files: Which pictures.
        found: What ``files.contents()`` says of them; pictures with a problem stay black.
        image_size: Side of the squares.
        folder: Where caches live; one folder serves any number of data sets and sizes.
    """
    place = Path(folder).expanduser() / f"{image_size}px-{_key(found, image_size)}"
    shape = (len(files), image_size, image_size, 3)
    if place.exists():
        try:
            return ImageCache(place, shape)
        except (ValueError, OSError, EOFError) as error:
            warnings.warn(f"{place} is damaged ({error}) and is built again", stacklevel=2)
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

    # Pillow decodes outside of the interpreter's lock, so threads use all cores.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        work = pool.map(fill, range(len(files)))
        for _ in tqdm(work, total=len(files), desc=f"decoding to {image_size} px", disable=None):
            pass
    images.flush()
    np.save(draft / "checksums.npy", checksums)


def _room_for(path: Path, shape: tuple[int, ...]) -> np.memmap[Any, np.dtype[np.uint8]]:
    """A new file mapped into memory, with its whole space on the disk taken now.

    A map of a file with gaps takes space when it is written to, and where there is none left the system
    ends the process. Here, it is an error that can be told.

    Raises:
        OSError: When the disk has no room.
    """
    try:
        images = np.lib.format.open_memmap(path, "w+", np.uint8, shape)
        with open(path, "r+b") as file:
            _reserve(file, path.stat().st_size)
    except OSError as error:
        needed = f"{math.prod(shape) / 1e6:.0f} MB of decoded pictures do not fit"
        reason = (
            f"{needed} ({error.strerror}); free the space, or choose another image_cache folder"
        )
        raise OSError(error.errno, reason, str(path.parent.parent)) from error
    return images


def _reserve(file: BinaryIO, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    for start in range(
        0, size, BLOCK
    ):  # what stands there already, the gap's zeros too, is written
        file.seek(start)
        block = file.read(BLOCK)
        file.seek(start)
        file.write(block)
    file.flush()
    os.fsync(file.fileno())
