"""Read arrays with verified checksums.

NumPy's ``.npz`` is a zip archive with a checksum per array, which is verified when the last byte is read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from rebll_avalanche.errors import DamagedError


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an ``.npz`` file.

    Raises:
        DamagedError: When a checksum does not match, or the file is not an archive.
    """
    with _damage_named(path), zipfile.ZipFile(path) as archive:
        arrays = {}
        for name in archive.namelist():
            with archive.open(name) as stream:
                arrays[name.removesuffix(".npy")] = _whole_array(stream)
        return arrays


def read_array(path: Path, name: str) -> np.ndarray:
    """Read one array of an ``.npz`` file.

    Raises:
        DamagedError: As :func:`read_arrays`, or when there is no such array.
    """
    arrays = read_arrays(path)
    if name not in arrays:
        raise DamagedError(f"{path} is damaged (it has no array {name!r})")
    return arrays[name]


def mapped_array(path: Path) -> np.ndarray:
    """The array of an ``.npy`` file, read from disk where it is used; its content is not verified.

    Raises:
        DamagedError: When the head of the file is damaged, or it is too short.
    """
    with _damage_named(path):
        # A plain array over the map: indexing np.memmap takes 3 us longer per row.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _whole_array(stream: IO[bytes]) -> np.ndarray:
    """An array that ends where its stream does.

    NumPy reads as many bytes as the array's head says. If a damaged head says less, the end is not reached
    and the checksum is not verified.
    """
    array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
    if stream.read(1):
        raise ValueError("it holds more than its shape says")
    return array


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    # NumPy's and zipfile's parsers raise many kinds of errors: TokenError, KeyError, NotImplementedError ...
    except Exception as error:
        raise DamagedError(f"{path} is damaged ({type(error).__name__}: {error})") from error
