"""Lock a learner's file while it is changed, so that concurrent writers do not lose lessons."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rebll_avalanche.files import sweep_drafts
from rebll_avalanche.learner.learner import Learner

# Seconds after which a draft counts as abandoned: ``Learner.save`` writes without the lock.
ABANDONED = 600.0


@contextmanager
def changing(path: Path, make: Callable[[], Learner] | None = None) -> Iterator[Learner]:
    """The learner in a file; the file is rewritten when the block ends without an error.

    Args:
        path: The file.
        make: Makes a learner if the file does not exist; without it, the file must exist.
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
    """Hold the lock of a file; if another process has it, print a message and wait."""
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
        # Before it is released: a process that has opened it meanwhile finds its lock deleted, and retries.
        with suppress(OSError):  # Windows cannot delete an open file
            beside.unlink()
        lock.release()
