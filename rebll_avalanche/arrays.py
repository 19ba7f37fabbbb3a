"""Read arrays with verified checksums.

NumPy's ``.npz`` is a zip archive with a checksum per array, which is verified while reading.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from rebll_avalanche.errors import DamagedError

# Errors raised by damaged archives; pickled objects are refused with ValueError.
_UNREADABLE = (
    *(OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, MemoryError),
    *(SyntaxError, TypeError, zipfile.BadZipFile, zlib.error),
)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an ``.npz`` file.

    Raises:
        DamagedError: When a checksum does not match, or the file is not an archive.
    """
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise
    except (*_UNREADABLE, AttributeError) as error:
        raise DamagedError(f"{path} is damaged ({type(error).__name__}: {error})") from error


def read_array(path: Path, name: str) -> np.ndarray:
    """Read one array of an ``.npz`` file.

    Raises:
        DamagedError: As :func:`read_arrays`, or when there is no such array.
    """
    arrays = read_arrays(path)
    if name not in arrays:
        raise DamagedError(f"{path} is damaged (it has no array {name!r})")
    return arrays[name]
