"""Arrays that are read back as they were written, or not at all.

NumPy's ``.npz`` is a zip archive, which holds a checksum of every array and compares it while reading.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from rebll_avalanche.errors import DamagedError

# What a damaged archive may raise; pickled objects are refused as ValueError.
_UNREADABLE = (
    *(OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, MemoryError),
    *(SyntaxError, TypeError, zipfile.BadZipFile, zlib.error),
)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an ``.npz`` file.

    Raises:
        DamagedError: When a checksum is not that of the bytes, or the file is something else.
    """
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise
    except (*_UNREADABLE, AttributeError) as error:
        raise DamagedError(f"{path} is damaged ({type(error).__name__}: {error})") from error


def read_array(path: Path, name: str) -> np.ndarray:
    """One array of such a file.

    Raises:
        DamagedError: As :func:`read_arrays`, or when there is no such array.
    """
    arrays = read_arrays(path)
    if name not in arrays:
        raise DamagedError(f"{path} is damaged (it has no array {name!r})")
    return arrays[name]
