"""What can be wrong with files that come from outside, as one small family of exceptions.

All of them are ``ValueError``, and a file that is not there is also a ``FileNotFoundError``: whoever
catches these keeps working, and a command prints the message in one line. A message names the file, the
place in it, the value, and the way out.
"""

from __future__ import annotations

import os
import stat


class RebllError(ValueError):
    """Something from outside cannot be used as it is."""


class TableError(RebllError):
    """A table of labels, or an annotation file, does not say what it must."""


class PictureError(RebllError):
    """A picture cannot be read."""


class MissingFileError(RebllError, FileNotFoundError):
    """A file or folder that somebody has named is not there."""


class DamagedError(RebllError):
    """The bytes of a file are not those that were written, or make no sense."""


class UnsafeError(RebllError):
    """A file could reach outside of its folder."""


class ChangedError(RebllError):
    """A run would go on with other data or other settings than it began with."""


class DivergedError(RebllError):
    """Training has left the range of useful numbers."""


class LostRankError(RebllError):
    """Another process of the same job has ended."""


def check_regular_file(path: str | os.PathLike[str], kind: type[RebllError]) -> None:
    """Refuse what must not be opened: reading a pipe or a device may wait for ever.

    Args:
        path: What is to be read.
        kind: The error to raise when it is there but is no file.

    Raises:
        MissingFileError: When there is nothing.
        RebllError: Of the kind asked for, when it is something else than a file.
    """
    shown = os.fspath(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        raise MissingFileError(f"there is no file {shown}") from error
    except (OSError, ValueError) as error:  # a name may hold what no file system takes
        raise kind(f"cannot read {shown!r}: {error}") from error
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        raise kind(f"cannot read {shown}: it is {found}, not a file")
