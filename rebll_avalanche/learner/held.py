"""A learner's file held while it is changed, so that of two writers none loses a lesson."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rebll_avalanche.files import sweep_drafts
from rebll_avalanche.learner.learner import Learner

# A draft that has not grown for so many seconds is no longer written: ``Learner.save`` asks for no lock.
ABANDONED = 600.0


@contextmanager
def changing(path: Path, make: Callable[[], Learner] | None = None) -> Iterator[Learner]:
    """The learner of a file, which is written again when the block ends without an error.

    Args:
        path: The file.
        make: Makes a learner if there is no file; without it, the file must be there.
    """
    with held(path):
        try:
            learner = make() if make is not None and not path.exists() else Learner.load(path)
            yield learner
        except KeyboardInterrupt:
            raise KeyboardInterrupt("nothing was changed") from None
        learner.save(path)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile; waits, and says so, while somebody does."""
    beside = path.with_name(f"{path.name}.lock")
    lock = FileLock(beside)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"{path} is being changed by another process; waiting for it", file=sys.stderr)
        lock.acquire()
    try:
        sweep_drafts(path.parent, of=path.name, older_than=ABANDONED)
        yield
    finally:
        # Before it is released: whoever has opened it meanwhile gets a lock without a name, and tries again.
        with suppress(OSError):  # Windows removes no file that is open
            beside.unlink()
        lock.release()
