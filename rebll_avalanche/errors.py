"""Exceptions for problems with input files.

All of them are ``ValueError``, and a missing file is also a ``FileNotFoundError``, so existing handlers
keep working; a command prints the message in one line. A message names the file, the location in it, the
value, and a remedy.
"""

from __future__ import annotations

import os
import stat


class RebllError(ValueError):
    """An input cannot be used as it is."""


class TableError(RebllError):
    """A label table or an annotation file has invalid content."""


class PictureError(RebllError):
    """An image cannot be read."""


class MissingFileError(RebllError, FileNotFoundError):
    """A file or folder does not exist."""


class DamagedError(RebllError):
    """A file was modified since it was written, or cannot be parsed."""


class UnsafeError(RebllError):
    """A file could refer to something outside its folder."""


class ChangedError(RebllError):
    """A run would continue with other data or settings than it began with."""


class DivergedError(RebllError):
    """Training has diverged."""


class LostRankError(RebllError):
    """Another process of the same job has ended."""


def check_regular_file(path: str | os.PathLike[str], kind: type[RebllError]) -> None:
    """Refuse to open anything but a regular file: reading a pipe or a device may block forever.

    Args:
        path: The path to read.
        kind: The error to raise when the path exists but is not a file.

    Raises:
        MissingFileError: When the path does not exist.
        RebllError: An error of ``kind``, when the path is not a file.
    """
    shown = os.fspath(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        raise MissingFileError(f"there is no file {shown}") from error
    except (OSError, ValueError) as error:  # names that no file system accepts
        raise kind(f"cannot read {shown[:200]!r}: {str(error)[:200]}") from error
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        raise kind(f"cannot read {shown}: it is {found}, not a file")
