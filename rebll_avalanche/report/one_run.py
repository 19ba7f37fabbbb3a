"""What somebody wants to know who looks at one run alone: every class in numbers, and the worst images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebll_avalanche.report.runs import Run

WORST = 12


@dataclass(frozen=True)
class Decisions:
    """How right decisions about a class are; None where nothing was called, or nothing is there."""

    precision: float | None
    recall: float | None


@dataclass(frozen=True)
class ClassRow:
    """One class on the test images.

    Attributes:
        name: The class.
        present: Images that have it, of those annotated for it.
        absent: Images that do not.
        ap: Average precision, if it is defined.
        at: Decisions, one entry per threshold.
    """

    name: str
    present: int
    absent: int
    ap: float | None
    at: tuple[Decisions, ...]


@dataclass(frozen=True)
class WorstImage:
    """An image whose labels the model finds least probable.

    Attributes:
        name: Its file, or its number among the test images.
        picture: A small JPEG, if the run has kept one.
        missed: Classes that are there and were not called, with their scores.
        wrong: Classes that were called and are not there.
    """

    name: str
    missed: tuple[tuple[str, float], ...]
    wrong: tuple[tuple[str, float], ...]
    picture: bytes | None = None


def class_rows(run: Run, thresholds: Sequence[float]) -> list[ClassRow]:
    """A row per class of the newest experience's test images, in order of learning."""
    if run.scores is None:
        return []
    scores, truth = run.scores["scores"], run.scores["truth"]
    rows = []
    for column, name in enumerate(run.scores["class_names"].tolist()):
        there, gone = truth[:, column] == 1, truth[:, column] == 0
        decisions = []
        for threshold in thresholds:
            called = scores[:, column] > threshold
            hits, wrong = int((called & there).sum()), int((called & gone).sum())
            decisions.append(Decisions(_share(hits, hits + wrong), _share(hits, int(there.sum()))))
        ap = run.last.per_class_ap.get(name)
        rows.append(ClassRow(name, int(there.sum()), int(gone.sum()), ap, tuple(decisions)))
    return rows


def worst_rows(
    scores: np.ndarray, truth: np.ndarray, threshold: float, count: int = WORST
) -> list[int]:
    """Rows of images with a wrong decision, the least probable labels first."""
    likely = np.clip(np.where(truth == 1, scores, 1 - scores.astype(np.float64)), 1e-7, 1)
    surprise = np.where(np.isnan(truth), 0.0, -np.log(likely)).sum(axis=1)
    decided_wrong = (_missed(scores, truth, threshold) | _wrong(scores, truth, threshold)).any(1)
    order = np.argsort(-surprise, kind="stable")
    return [int(row) for row in order[decided_wrong[order]][:count]]


def worst_images(run: Run, threshold: float, count: int = WORST) -> list[WorstImage]:
    """Images with a wrong decision, the least probable labels first."""
    if run.scores is None:
        return []
    scores, truth = run.scores["scores"], run.scores["truth"]
    named = run.scores.get("image_names")
    classes = run.scores["class_names"].tolist()
    missed, wrong = _missed(scores, truth, threshold), _wrong(scores, truth, threshold)
    found = []
    for row in worst_rows(scores, truth, threshold, count):
        name = f"image {row}" if named is None else str(named[row])
        of_row = [_scored(classes, scores[row], which[row]) for which in (missed, wrong)]
        found.append(WorstImage(name, of_row[0], of_row[1], run.pictures.get(row)))
    return found


def _missed(scores: np.ndarray, truth: np.ndarray, threshold: float) -> np.ndarray:
    missed: np.ndarray = (truth == 1) & (scores <= threshold)
    return missed


def _wrong(scores: np.ndarray, truth: np.ndarray, threshold: float) -> np.ndarray:
    wrong: np.ndarray = (truth == 0) & (scores > threshold)
    return wrong


def _scored(
    classes: Sequence[str], scores: np.ndarray, which: np.ndarray
) -> tuple[tuple[str, float], ...]:
    return tuple((classes[column], float(scores[column])) for column in which.nonzero()[0].tolist())


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
