"""Bar charts: prediction scores of present and absent labels (the paper's figure 2b), and cost of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from rebll_avalanche.report.groups import Group, Spread
from rebll_avalanche.report.runs import Run
from rebll_avalanche.report.style import INK, MUTED, Look, canvas

BINS = 25
SMALLEST_SHARE = 1e-4
# Maximum characters per line of a bar's label, to leave room for the bars. Heights of rows and of further
# lines are in pixels.
LABEL, ROW, LINE = 24, 24, 12


def pooled_scores(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Scores after the last experience for present and for absent classes, over all seeds."""
    present, absent = [np.empty(0)], [np.empty(0)]
    for run in runs:
        if run.scores is not None:
            truth, scores = run.scores["truth"], run.scores["scores"]
            present.append(scores[truth == 1])
            absent.append(scores[truth == 0])
    return np.concatenate(present), np.concatenate(absent)


def score_histogram(
    present: np.ndarray, absent: np.ndarray, look: Look, *, threshold: float, width: float
) -> Figure:
    """Histogram of the scores of present and absent labels, on a logarithmic axis.

    There are so many absent labels that a linear axis would show only one bar at zero.
    """
    with canvas(width, 0.68 * width) as (figure, axes):
        for scores, colour, line in ((absent, MUTED, 1.2), (present, look.colour, 2.0)):
            counts, edges = np.histogram(scores, BINS, (0, 1))
            share = np.maximum(counts / max(len(scores), 1), SMALLEST_SHARE)
            axes.stairs(share, edges, baseline=SMALLEST_SHARE, color=colour, fill=True, alpha=0.16)
            axes.stairs(share, edges, baseline=None, color=colour, linewidth=line)
        axes.set_yscale("log")
        axes.set_ylim(SMALLEST_SHARE, 1)
        axes.set_xlim(0, 1)
        axes.yaxis.set_major_locator(FixedLocator([1e-4, 1e-3, 1e-2, 1e-1, 1]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}"))
        axes.axvline(threshold, color=INK, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.set_xlabel("score")
        axes.set_title("share of labels, %", color=MUTED)
        for scores, colour, place, side in (
            (absent, MUTED, 0.06, "absent"), (present, look.colour, 0.13, "present"),
        ):  # fmt: skip
            above = 100 * float((scores > threshold).mean()) if len(scores) else 0.0
            axes.text(
                threshold - 0.02, 1 - place, f"{side}: {above:.1f} % above {threshold:g}", fontsize=9,
                color=colour, transform=axes.transAxes, ha="right", va="center",
            )  # fmt: skip
    return figure


def cost_bars(
    costs: Sequence[tuple[Group, Spread | None]],
    write: Callable[[float], str],
    looks: Mapping[str, Look],
    *,
    width: float,
) -> Figure | None:
    """One bar per experiment for a cost, with its value at the end; None if it was never measured."""
    known = [(group, spread.mean) for group, spread in costs if spread is not None]
    if not known:
        return None
    labels = [fill(group.label, LABEL) for group, _ in known]
    means = [mean for _, mean in known]
    rows = np.array([ROW + LINE * label.count("\n") for label in labels])
    places = np.cumsum(rows) - rows / 2
    with canvas(width, rows.sum() + 16) as (figure, axes):
        axes.barh(
            places, means, height=0.56 * ROW,
            color=[INK if group.ceiling else looks[group.label].colour for group, _ in known],
        )  # fmt: skip
        for place, mean in zip(places, means, strict=True):
            axes.annotate(
                write(mean), (mean, place), xytext=(5, 0),
                textcoords="offset points", va="center", fontsize=9, color=INK,
            )  # fmt: skip
        axes.set_yticks(places, labels, color=INK)
        axes.set_xlim(0, 1.22 * max(means))
        axes.set_ylim(rows.sum(), 0)
        axes.grid(False)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
    return figure
