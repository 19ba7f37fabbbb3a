"""One process per run folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_held: set[int] = set()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder; the system gives it back when the process ends, however it ends.

    Raises:
        ValueError: When another live process has it, or it is a file.
    """
    if folder.is_file():
        raise ValueError(f"{folder} is a file; choose another name for the folder of the run")
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 32).decode() or "unknown"
            raise ValueError(
                f"{folder} is in use by another run (process {owner}); wait for it, stop it, "
                "or choose another folder"
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        _held.add(handle)
        yield
    finally:
        _held.discard(handle)
        os.close(handle)


def _release_in_child() -> None:
    # A data-loading worker that outlives a killed run for a moment must not keep its folder locked.
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_release_in_child)
