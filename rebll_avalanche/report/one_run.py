"""Tables about a single run: every class in numbers, and the images with the worst predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebll_avalanche.report.runs import Run

WORST = 12


@dataclass(frozen=True)
class ClassRow:
    """One class on the test images.

    Attributes:
        name: The class.
        present: Number of images that have it.
        absent: Number of images annotated as not having it.
        ap: Average precision, if it is defined.
        at: Precision and recall at each threshold; None where they are undefined.
    """

    name: str
    present: int
    absent: int
    ap: float | None
    at: list[tuple[float | None, float | None]]


@dataclass(frozen=True)
class WorstImage:
    """An image whose labels the model finds least probable.

    Attributes:
        name: Its file, or its number among the test images.
        picture: A small JPEG, if the run has kept one.
        missed: Present classes that were not predicted, with their scores.
        wrong: Absent classes that were predicted, with their scores.
    """

    name: str
    missed: list[tuple[str, float]]
    wrong: list[tuple[str, float]]
    picture: bytes | None = None


def class_rows(run: Run, thresholds: Sequence[float]) -> list[ClassRow]:
    """A row per class, from the test images after the newest experience, in order of learning."""
    if run.scores is None:
        return []
    scores, truth = run.scores["scores"], run.scores["truth"]
    rows = []
    for column, name in enumerate(run.scores["class_names"].tolist()):
        known = ~np.isnan(truth[:, column])
        positive = truth[known, column] == 1
        present, absent = int(positive.sum()), int((~positive).sum())
        decisions = []
        for threshold in thresholds:
            predicted = scores[known, column] > threshold
            hits = int((predicted & positive).sum())
            decisions.append((_share(hits, int(predicted.sum())), _share(hits, present)))
        rows.append(ClassRow(name, present, absent, run.last.per_class_ap.get(name), decisions))
    return rows


def worst_rows(
    scores: np.ndarray, truth: np.ndarray, threshold: float, count: int = WORST
) -> list[int]:
    """Rows of images with a wrong decision, the least probable labels first."""
    likely = np.clip(np.where(truth == 1, scores, 1 - scores.astype(np.float64)), 1e-7, 1)
    surprise = np.where(np.isnan(truth), 0.0, -np.log(likely)).sum(axis=1)
    missed, wrong = _decided_wrong(scores, truth, threshold)
    order = np.argsort(-surprise, kind="stable")
    return [int(row) for row in order[(missed | wrong).any(1)[order]][:count]]


def worst_images(run: Run, threshold: float, count: int = WORST) -> list[WorstImage]:
    """Images with a wrong prediction, those with the least probable labels first."""
    if run.scores is None:
        return []
    scores, truth = run.scores["scores"], run.scores["truth"]
    names = run.scores.get("image_names", [f"image {row}" for row in range(len(scores))])
    classes = run.scores["class_names"].tolist()
    missed, wrong = _decided_wrong(scores, truth, threshold)

    def scored(row: int, which: np.ndarray) -> list[tuple[str, float]]:
        return [(classes[column], float(scores[row, column])) for column in which[row].nonzero()[0]]

    return [
        WorstImage(str(names[row]), scored(row, missed), scored(row, wrong), run.pictures.get(row))
        for row in worst_rows(scores, truth, threshold, count)
    ]


def _decided_wrong(
    scores: np.ndarray, truth: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where a class is missed, and where an absent one is predicted."""
    return (truth == 1) & (scores <= threshold), (truth == 0) & (scores > threshold)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
