"""One learner that many ask and one thread changes.

A change is made to a copy, written to the file, and only then shown: whoever asks meanwhile sees the learner
as it was, and what is on disk is what the next start will show.
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
# Of finished jobs, so many can still be asked about.
REMEMBERED = 200
# Kinds of jobs after which earlier ones tell no longer what came of them.
FORGETTING = ("forget", "undo")
T = TypeVar("T")

logger = logging.getLogger(__name__)


class BusyError(Exception):
    """More is waiting than should."""


@dataclass
class Job:
    """One change of the learner.

    Attributes:
        number: Counted from 1 since the start.
        kind: Such as ``"learn"``.
        state: Where it is.
        progress: From 0 to 1.
        result: What came of it, once it is done and until something is forgotten.
        error: Why it failed.
        finished: Resolves to itself at its end, whatever that is.
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
    """What is worked out from a learner once, and is gone when the learner is: the next state has another.

    Args:
        work_out: From a learner; what it returns does not hold the learner.
    """

    def __init__(self, work_out: Callable[[Learner], T]) -> None:
        self._work_out = work_out
        self._lock = threading.Lock()
        self._found: WeakKeyDictionary[Learner, T] = WeakKeyDictionary()

    def of(self, learner: Learner) -> T:
        """For this state of the learner."""
        with self._lock:
            if learner not in self._found:
                self._found[learner] = self._work_out(learner)
            return self._found[learner]


class LearnerService:
    """Holds a learner, answers with it, and changes it one lesson at a time.

    Args:
        learner: As it is in the file, or a new one.
        path: The file.
        most_waiting: Changes beyond so many are refused until others are done.
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
        """The learner as it is now. Ask for it once per answer: the next call may give another."""
        return self._learner

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def jobs(self) -> list[Job]:
        """Newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def job(self, number: int) -> Job | None:
        """One of them, while it is remembered."""
        with self._lock:
            return self._jobs.get(number)

    def submit(self, kind: str, change: Change, clean_up: Callable[[], None] = lambda: None) -> Job:
        """Put a change at the end of the queue.

        Args:
            kind: For people.
            change: Gets a copy of the learner, which it may change.
            clean_up: Called when the change was made, failed, or was refused.

        Raises:
            BusyError: When too many wait.
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
        """Finish what waits, then end."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        torch.set_num_threads(
            self._cores
        )  # of this thread: else it is what others were last set to
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
                # Of what a message may name, only files beside the learner are not the asker's own.
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
        """Of jobs that are done: they name pictures and classes that nobody shall see again."""
        for job in self.jobs():
            if job.number < before:
                job.result = None

    def _changed(self, change: Change, job: Job) -> Any:
        # A learner replaces what it knows and changes none of it, so a shallow copy is one of its own.
        learner = copy.copy(self._learner)
        result = change(learner, job)
        _warm(learner)
        learner.save(self._path)
        self._learner = learner
        return result


def _warm(learner: Learner) -> None:
    """Build what the first answer would have to wait for, and what two threads would build twice."""
    if learner.class_names:
        learner.scores(np.zeros((64, 64, 3), np.uint8))
    else:
        _ = learner.features


def _be_patient() -> None:
    """Let answers go before lessons. Only Linux has priorities of single threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
