"""Freed memory that the next tensor can have at once."""

from __future__ import annotations

import ctypes
import os

# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
# Variables by which a user sets the same.
OWN_CHOICES = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def keep_freed_memory() -> bool:
    """Ask the C library to keep memory that tensors on the CPU free, for the rest of this process.

    Linux's gives large blocks back to the system, which then has to clear every page of the next one:
    most of the time of an evaluation at 224 px. Kept memory does not count as free to other processes,
    and a run may hold somewhat more of it. ``rebll`` does this in its own processes; a script of yours
    may call it before anything else.

    Returns:
        Whether it was asked: not another C library, which has no such setting, nor where one of
        :data:`OWN_CHOICES` is set.
    """
    if any(name in os.environ for name in OWN_CHOICES):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl and macOS; none at all; Windows
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
