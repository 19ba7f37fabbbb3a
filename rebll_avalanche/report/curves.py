"""Line charts: a metric after each experience (the paper's figure 4), or over a parameter (figure 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rebll_avalanche.report.groups import Group, Setting, Spread, Sweep
from rebll_avalanche.report.style import INK, MUTED, Look, canvas, end_labels


def metric_curves(
    setting: Setting, metric: str, title: str, looks: Mapping[str, Look], *, width: float
) -> Figure:
    """A metric over the classes seen so far, one line per experiment, with one deviation over seeds.

    Joint training, which has a single result, is a dashed horizontal line.
    """
    small = width < 500
    size = 10 if small else 11.5
    with canvas(width, 0.95 * width if small else 0.44 * width) as (figure, axes):
        curves = [(group, group.curve(metric)) for group in setting.shown]
        curves = [(group, curve) for group, curve in curves if curve]
        for group, curve in curves:
            look = looks[group.label]
            seen, mean, low, high = _band(curve)
            axes.fill_between(seen, low, high, color=look.colour, alpha=0.14, linewidth=0)
            axes.plot(
                seen,
                mean,
                color=look.colour,
                linestyle=look.dashes,
                marker=look.marker,
                clip_on=False,
            )
        ceilings = [(group, spread) for group in setting.groups if group.ceiling
                    and (spread := group.last(metric))]  # fmt: skip
        for _, spread in ceilings if metric != "Forgetting" else []:
            axes.axhline(100 * spread.mean, color=INK, linestyle=(0, (2, 2)), linewidth=1)
        steps = sorted({seen for _, curve in curves for seen, _ in curve})
        axes.set_xticks(
            steps if len(steps) <= (6 if small else 12) else steps[:: -(-len(steps) // 8)]
        )
        _limits(axes, steps[0], steps[-1])
        axes.set_xlabel("classes seen", fontsize=size)
        axes.tick_params(labelsize=size - 0.5)
        axes.set_title(title, color=MUTED, pad=10, fontsize=size)
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.margins(y=0.04)
        if metric == "Forgetting":
            axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        figure.canvas.draw()
        ends = [(curve[-1][0], 100 * curve[-1][1].mean, group) for group, curve in curves]
        labels = [(x, y, f"{g.label}  {y:.1f}", looks[g.label].colour) for x, y, g in ends]
        if metric != "Forgetting":
            labels += [
                (steps[-1], 100 * spread.mean, f"{group.label}  {100 * spread.mean:.1f}", INK)
                for group, spread in ceilings
            ]
        end_labels(axes, labels, size=9 if small else 11.5)
    return figure


def sweep_curves(sweep: Sweep, look: Look, *, width: float) -> Figure:
    """Last and average mAP over a parameter, with the best values marked."""
    with canvas(width, 0.72 * width) as (figure, axes):
        labels = []
        for metric, name, colour in (("mAP", "Last", look.colour), ("AvgmAP", "Average", MUTED)):
            curve = [(number, group.last(metric)) for number, group in sweep.points]
            known = [(number, spread) for number, spread in curve if spread is not None]
            if known:
                _sweep_line(axes, known, colour, look.marker)
                labels.append((known[-1][0], 100 * known[-1][1].mean, name, colour))
        axes.set_xticks([number for number, _ in sweep.points])
        axes.set_xticklabels([f"{number:g}" for number, _ in sweep.points])
        _limits(axes, sweep.points[0][0], sweep.points[-1][0])
        axes.set_xlabel(sweep.parameter)
        axes.set_title("mAP, %", color=MUTED)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.margins(y=0.12)
        figure.canvas.draw()
        end_labels(axes, labels)
    return figure


def _sweep_line(axes: Axes, known: list[tuple[float, Spread]], colour: str, marker: str) -> None:
    numbers, mean, low, high = _band(known)
    axes.fill_between(numbers, low, high, color=colour, alpha=0.14, linewidth=0)
    axes.plot(numbers, mean, color=colour, marker=marker, clip_on=False)
    best = int(np.argmax(mean))
    axes.annotate(
        f"{mean[best]:.1f}", (numbers[best], mean[best]), xytext=(0, 7), color=colour,
        textcoords="offset points", ha="center", fontsize=9, fontweight="bold",
    )  # fmt: skip


def relabelling_curves(group: Group, *, width: float) -> Figure | None:
    """Accuracy, precision and recall of relabelled entries after each experience."""
    shown = (
        ("accuracy", "-", "o"),
        ("precision", (0, (5, 2)), "s"),
        ("recall", (0, (1.2, 1.6)), "D"),
    )
    lines = []
    for name, dashes, marker in shown:
        steps: dict[int, list[float | None]] = {}
        for run in group.runs:
            for step in run.steps:
                steps.setdefault(step.classes_seen, []).append(step.relabelling.get(name))
        spreads = [(seen, Spread.of(values)) for seen, values in sorted(steps.items())]
        known = [(float(seen), spread) for seen, spread in spreads if spread is not None]
        if known:
            lines.append((name, dashes, marker, known))
    if not lines:
        return None
    with canvas(width, 0.72 * width) as (figure, axes):
        for _, dashes, marker, known in lines:
            seen, mean, low, high = _band(known)
            axes.fill_between(seen, low, high, color=INK, alpha=0.1, linewidth=0)
            axes.plot(seen, mean, color=INK, linestyle=dashes, marker=marker, clip_on=False)
        axes.set_xticks([int(seen) for seen, _ in lines[0][3]])
        axes.set_xlabel("classes seen")
        axes.set_title("relabelled entries, %", color=MUTED)
        axes.set_ylim(0, 100)
        _limits(axes, lines[0][3][0][0], lines[0][3][-1][0])
        figure.canvas.draw()
        end_labels(axes, [
            (known[-1][0], 100 * known[-1][1].mean, f"{name}  {100 * known[-1][1].mean:.0f}", INK)
            for name, _, _, known in lines
        ])  # fmt: skip
    return figure


def _limits(axes: Axes, first: float, last: float) -> None:
    """Set the axis limits from the first position to the last; a single one is centred."""
    axes.set_xlim((first, last) if first < last else (first - 1, first + 1))


def _band(
    curve: list[tuple[int, Spread]] | list[tuple[float, Spread]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Positions, means and the edges of the band, in percent."""
    places = np.array([float(place) for place, _ in curve])
    mean = np.array([100 * spread.mean for _, spread in curve])
    std = np.array([0 if math.isnan(spread.std) else 100 * spread.std for _, spread in curve])
    return places, mean, mean - std, mean + std
