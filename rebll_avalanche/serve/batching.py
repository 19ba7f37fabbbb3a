"""Batch concurrent predictions, and compute several batches in parallel."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch
from PIL import Image

from rebll_avalanche.learner import Learner

# Larger batches would only delay the first request.
MOST_PICTURES = 8
# Several batches in parallel, on few cores each, are faster than one at a time on all cores: two threads
# of torch are only 1.5 times as fast as one.
MOST_THREADS = 4


@dataclass(frozen=True)
class Answer:
    """Predictions for some pictures.

    Attributes:
        thresholds: Threshold per class, in the order of the scores.
        scores: One row per picture.
    """

    thresholds: dict[str, float]
    scores: list[list[float]]


@dataclass
class _Question:
    pictures: Sequence[Image.Image]
    answer: Future[Answer] = field(default_factory=Future)


class Batcher:
    """Computes predictions in its own threads.

    Args:
        learner: Returns the current learner; called once per batch, so that no batch mixes two states.
    """

    def __init__(self, learner: Callable[[], Learner]) -> None:
        self._learner = learner
        self._waiting: queue.Queue[_Question | None] = queue.Queue()
        cores = torch.get_num_threads()
        self._cores_each = max(cores // MOST_THREADS, 1)
        self._threads = [
            threading.Thread(target=self._work, name=f"answers {number}", daemon=True)
            for number in range(min(cores, MOST_THREADS))
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, pictures: Sequence[Image.Image]) -> Future[Answer]:
        """The scores of every class for some pictures."""
        question = _Question(pictures)
        self._waiting.put(question)
        return question.answer

    def close(self) -> None:
        """Answer pending requests, then stop."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        torch.set_num_threads(self._cores_each)  # of this thread
        while (first := self._waiting.get()) is not None:
            batch, ended = [first], False
            while sum(len(each.pictures) for each in batch) < MOST_PICTURES:
                try:
                    following = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    ended = True
                    break
                batch.append(following)
            self._answer(batch)
            if ended:
                return

    def _answer(self, batch: list[_Question]) -> None:
        try:
            learner = self._learner()
            pictures = [picture for each in batch for picture in each.pictures]
            rows = (
                learner.scores(pictures).tolist() if learner.class_names else [[]] * len(pictures)
            )
            thresholds = learner.thresholds
        except Exception as error:
            for each in batch:
                each.answer.set_exception(error)
            return
        for each in batch:
            mine, rows = rows[: len(each.pictures)], rows[len(each.pictures) :]
            each.answer.set_result(Answer(thresholds, mine))
