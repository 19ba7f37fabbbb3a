"""Calibration of scores: of all labels with a score of 0.7, are 70 % present?"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from rebll_avalanche.report.style import MUTED, Look, canvas

BINS = 15


def reliability(
    present: np.ndarray, absent: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean score, fraction of present labels and count of each non-empty bin of scores."""
    scores = np.concatenate([present, absent])
    there = np.concatenate([np.ones(len(present)), np.zeros(len(absent))])
    place = np.minimum((scores * BINS).astype(int), BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    used = counts > 0
    said = np.bincount(place, scores, BINS)[used] / counts[used]
    found = np.bincount(place, there, BINS)[used] / counts[used]
    return said, found, counts[used]


def calibration_error(present: np.ndarray, absent: np.ndarray) -> float:
    """Expected calibration error: mean distance between score and fraction of present labels."""
    said, found, counts = reliability(present, absent)
    return float((np.abs(said - found) * counts).sum() / counts.sum())


def reliability_curve(
    present: np.ndarray, absent: np.ndarray, look: Look, *, width: float
) -> Figure:
    """Fraction of present labels over score; calibrated scores lie on the diagonal."""
    said, found, _ = reliability(present, absent)
    with canvas(width, 0.8 * width) as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.plot(said, found, color=look.colour, marker=look.marker, clip_on=False)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("score")
        axes.set_title("fraction of present labels", color=MUTED)
        error = 100 * calibration_error(present, absent)
        axes.text(
            0.03, 0.95, f"calibration error {error:.1f} %", transform=axes.transAxes, va="top",
            fontsize=9, color=look.colour,
        )  # fmt: skip
    return figure
