"""A learner shared by many requests and changed by one thread.

A change is made to a copy, written to the file, and only then published: concurrent requests see the
previous state, and a restarted server continues with the published one.
"""

from __future__ import annotations

import copy
import itertools
import logging
import os
import queue
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch

from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner import Learner

State = Literal["waiting", "running", "done", "failed"]
# Number of finished jobs that are remembered.
REMEMBERED = 200
# Kinds of jobs that delete the results of earlier jobs, which name pictures and classes.
FORGETTING = ("forget", "undo")
T = TypeVar("T")

logger = logging.getLogger(__name__)


class BusyError(Exception):
    """Too many changes are waiting."""


@dataclass
class Job:
    """One change of the learner.

    Attributes:
        number: Counted from 1 since the start of the server.
        kind: Kind of change, such as ``"learn"``.
        state: Current state.
        progress: From 0 to 1.
        result: Result, from its end until something is forgotten.
        error: Error message, if it failed.
        finished: Resolves to the job when it ends, also when it failed.
    """

    number: int
    kind: str
    state: State = "waiting"
    progress: float = 0.0
    result: Any = None
    error: str | None = None
    finished: Future[Job] = field(default_factory=Future)


Change = Callable[[Learner, Job], Any]


class OncePerState(Generic[T]):
    """A value computed once per state of the learner, and released with that state.

    Args:
        work_out: Function of a learner; its result must not refer to the learner.
    """

    def __init__(self, work_out: Callable[[Learner], T]) -> None:
        self._work_out = work_out
        self._lock = threading.Lock()
        self._found: WeakKeyDictionary[Learner, T] = WeakKeyDictionary()

    def of(self, learner: Learner) -> T:
        """The value for this state of the learner."""
        with self._lock:
            if learner not in self._found:
                self._found[learner] = self._work_out(learner)
            return self._found[learner]


class LearnerService:
    """Holds the current learner, and applies changes one after the other.

    Args:
        learner: Loaded from the file, or a new one.
        path: The file.
        most_waiting: Maximum number of waiting changes.
    """

    def __init__(self, learner: Learner, path: Path, most_waiting: int = 8) -> None:
        self._learner = learner
        self._path = path.absolute()
        self._waiting: queue.Queue[tuple[Job, Change, Callable[[], None]] | None]
        self._waiting = queue.Queue(most_waiting)
        self._jobs: OrderedDict[int, Job] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        # Models made for prediction must not differ from those made for lessons in another thread.
        import avalanche.models  # noqa: F401

        _warm(learner)
        self._cores = torch.get_num_threads()
        self._thread = threading.Thread(target=self._work, name="lessons", daemon=True)
        self._thread.start()

    @property
    def learner(self) -> Learner:
        """The current learner. Read it once per request: the next call may return another state."""
        return self._learner

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def jobs(self) -> list[Job]:
        """All remembered jobs, newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def job(self, number: int) -> Job | None:
        """A job by its number; None if it is not remembered."""
        with self._lock:
            return self._jobs.get(number)

    def submit(self, kind: str, change: Change, clean_up: Callable[[], None] = lambda: None) -> Job:
        """Put a change at the end of the queue.

        Args:
            kind: Kind of change.
            change: Called with a copy of the learner, which it may change.
            clean_up: Called when the change has ended or was refused.

        Raises:
            BusyError: When too many are waiting.
        """
        with self._lock:
            job = Job(next(self._numbers), kind)
            try:
                self._waiting.put_nowait((job, change, clean_up))
            except queue.Full:
                clean_up()
                raise BusyError(f"{self._waiting.maxsize} changes are waiting already") from None
            self._jobs[job.number] = job
            while len(self._jobs) > REMEMBERED:
                self._jobs.popitem(last=False)
        return job

    def close(self) -> None:
        """Finish waiting changes, then stop."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        torch.set_num_threads(self._cores)  # per thread
        _be_patient()
        while (entry := self._waiting.get()) is not None:
            job, change, clean_up = entry
            job.state = "running"
            try:
                job.result = self._changed(change, job)
                if job.kind in FORGETTING:
                    self._drop_results(before=job.number)
                job.progress, job.state = 1.0, "done"
            except RebllError as error:
                # Do not reveal the folder of the learner in messages.
                job.error = str(error).replace(f"{self._path.parent}{os.sep}", "")
                job.state = "failed"
            except Exception as error:
                logger.exception("%s failed", job.kind)
                job.error = (
                    f"{job.kind} failed ({type(error).__name__}); the log of the server says more"
                )
                job.state = "failed"
            finally:
                clean_up()
                job.finished.set_result(job)

    def _drop_results(self, before: int) -> None:
        """Delete results of earlier jobs, which name forgotten pictures and classes."""
        for job in self.jobs():
            if job.number < before:
                job.result = None

    def _changed(self, change: Change, job: Job) -> Any:
        # A learner never modifies its knowledge in place, so a shallow copy is independent.
        learner = copy.copy(self._learner)
        result = change(learner, job)
        _warm(learner)
        learner.save(self._path)
        self._learner = learner
        return result


def _warm(learner: Learner) -> None:
    """Build the networks now, so that the first request need not wait and no two threads build them."""
    if learner.class_names:
        learner.scores(np.zeros((64, 64, 3), np.uint8))
    else:
        _ = learner.features


def _be_patient() -> None:
    """Lower this thread's priority below that of requests; only Linux has priorities per thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
