"""Set up a process that executes runs: freed memory, signals, warnings."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent

# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
# Environment variables that set the same.
OWN_CHOICES = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def keep_freed_memory() -> bool:
    """Make the C library keep memory freed by CPU tensors, for the rest of this process.

    On Linux it returns large blocks to the system, which has to clear every page of the next one: most
    of the time of an evaluation at 224 px. Kept memory is not available to other processes, and a run
    may use somewhat more of it. ``rebll`` does this in its own processes; your own script may call it
    before anything else.

    Returns:
        Whether it was set: not for a C library without this setting, nor if one of
        :data:`OWN_CHOICES` is set.
    """
    if any(name in os.environ for name in OWN_CHOICES):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl and macOS; none at all; Windows
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))


def release_freed_memory() -> None:
    """Return memory that is free now to the system, if the C library can: to be called now and then.

    Arrays that grow from one experience to the next do not fit where their predecessors were, so that
    what was kept for them becomes ever more, in pieces.
    """
    with suppress(AttributeError, OSError, TypeError):  # as above
        ctypes.CDLL(None).malloc_trim(0)


def stop_on_terminate() -> None:
    """Treat SIGTERM as Ctrl-C: progress bars close, locks are released."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def speaks_for_all() -> bool:
    """Whether this process reports why a job ends: of several ranks, only the first that asks."""
    if "RANK" not in os.environ:
        return True
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return os.environ["RANK"] == "0"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    try:
        # On one machine torchrun keeps this, so that it outlives the ranks.
        asked: int = distributed.distributed_c10d._get_default_store().add(f"told-{attempt}", 1)
    except RuntimeError:  # it has ended too, and with it the first rank if that kept the store
        kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return os.environ["RANK"] == ("0" if kept else "1")
    return asked == 1


def pass_on_warnings(tell: Callable[[str], None]) -> None:
    """Pass this package's warnings to a function, and hide those of other packages."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        # By folder, not by name: an environment may be in a folder with the name of this package.
        if category is UserWarning and PACKAGE in Path(filename).parents:
            tell(str(message))

    warnings.showwarning = show  # type: ignore[assignment]
