"""What a process that starts runs sets up first: freed memory, signals, warnings."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent

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


def stop_on_terminate() -> None:
    """Treat SIGTERM as Ctrl-C: progress bars close, locks are released."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def speaks_for_all() -> bool:
    """Whether this process tells why a job ends: of several ranks the first that asks, and no other."""
    if "RANK" not in os.environ:
        return True
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return os.environ["RANK"] == "0"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    try:
        # torchrun keeps this, so that it outlives the ranks.
        asked: int = distributed.distributed_c10d._get_default_store().add(f"told-{attempt}", 1)
    except RuntimeError:  # it has ended too
        return os.environ["RANK"] == "0"
    return asked == 1


def pass_on_warnings(tell: Callable[[str], None]) -> None:
    """From now on, tell warnings of this package; those of others stay out of the way."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        # By folder, not by name: an environment may lie in a folder that is called like this package.
        if category is UserWarning and PACKAGE in Path(filename).parents:
            tell(str(message))

    warnings.showwarning = show  # type: ignore[assignment]
