"""Freed memory that the next tensor can have at once."""

from __future__ import annotations

import ctypes
import os

# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Ask the C library to keep memory that tensors on the CPU free, for the rest of this process.

    Linux's gives large blocks back to the system, which then has to clear every page of the next one:
    most of the time of an evaluation at 224 px. Kept memory does not count as free to other processes,
    and a run may hold somewhat more of it. ``rebll`` does this for its runs; a script of your own
    may call it before anything else. Who has set ``MALLOC_...`` variables has chosen already.

    Returns:
        Whether it was asked: False with another C library, which has no such setting.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl and macOS; none at all; Windows
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
