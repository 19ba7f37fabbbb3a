"""Line charts: a metric after each experience (the paper's figure 4), or over a parameter (figure 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rebll_avalanche.report.groups import Group, Setting, Spread, Sweep
from rebll_avalanche.report.style import INK, MUTED, Look, canvas, end_labels

Curve = Sequence[tuple[float, Spread]]


def metric_curves(
    setting: Setting, metric: str, title: str, looks: Mapping[str, Look], *, width: float
) -> Figure:
    """A metric over the classes seen so far, one line per experiment, with one deviation over seeds.

    Joint training, which has a single result, is a dashed horizontal line.
    """
    small, forgetting = width < 500, metric == "Forgetting"
    size = 10 if small else 11.5
    labels = []
    with canvas(width, 0.95 * width if small else 0.44 * width) as (figure, axes):
        curves = {g.label: curve for g in setting.shown if (curve := g.curve(metric))}
        for label, curve in curves.items():
            _draw(axes, curve, looks[label])
            labels.append(_end(curve, label, looks[label].colour))
        steps = sorted({seen for curve in curves.values() for seen, _ in curve})
        for group in setting.groups:
            # Joint training does not forget.
            if group.ceiling and not forgetting and (spread := group.last(metric)):
                axes.axhline(100 * spread.mean, color=INK, linestyle=(0, (2, 2)), linewidth=1)
                labels.append(_end([(steps[-1], spread)], group.label, INK))
        axes.set_xticks(
            steps if len(steps) <= (6 if small else 12) else steps[:: -(-len(steps) // 8)]
        )
        _limits(axes, steps[0], steps[-1])
        axes.set_xlabel("classes seen", fontsize=size)
        axes.tick_params(labelsize=size - 0.5)
        axes.set_title(title, color=MUTED, pad=10, fontsize=size)
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.margins(y=0.04)
        if forgetting:
            axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        figure.canvas.draw()
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
                _draw(axes, known, Look(colour, marker=look.marker))
                labels.append((known[-1][0], 100 * known[-1][1].mean, name, colour))
                best, spread = max(known, key=lambda point: point[1].mean)
                axes.annotate(
                    f"{100 * spread.mean:.1f}", (best, 100 * spread.mean), xytext=(0, 7), color=colour,
                    textcoords="offset points", ha="center", fontsize=9, fontweight="bold",
                )  # fmt: skip
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


def relabelling_curves(group: Group, *, width: float) -> Figure | None:
    """Accuracy, precision and recall of relabelled entries after each experience."""
    looks = {
        "accuracy": Look(INK),
        "precision": Look(INK, (0, (5, 2)), "s"),
        "recall": Look(INK, (0, (1.2, 1.6)), "D"),
    }
    curves = {name: curve for name in looks if (curve := group.curve(name, "relabelling"))}
    if not curves:
        return None
    seen = [place for place, _ in next(iter(curves.values()))]
    with canvas(width, 0.72 * width) as (figure, axes):
        for name, curve in curves.items():
            _draw(axes, curve, looks[name], alpha=0.1)
        axes.set_xticks(seen)
        axes.set_xlabel("classes seen")
        axes.set_title("relabelled entries, %", color=MUTED)
        axes.set_ylim(0, 100)
        _limits(axes, seen[0], seen[-1])
        figure.canvas.draw()
        end_labels(axes, [_end(curve, name, INK, digits=0) for name, curve in curves.items()])
    return figure


def _limits(axes: Axes, first: float, last: float) -> None:
    """Set the axis limits from the first position to the last; a single one is centred."""
    axes.set_xlim((first, last) if first < last else (first - 1, first + 1))


def _draw(axes: Axes, curve: Curve, look: Look, *, alpha: float = 0.14) -> None:
    """Draw the means in percent as a line, and one deviation around them as a band."""
    places = [place for place, _ in curve]
    mean = np.array([100 * spread.mean for _, spread in curve])
    std = np.array([0 if math.isnan(spread.std) else 100 * spread.std for _, spread in curve])
    axes.fill_between(places, mean - std, mean + std, color=look.colour, alpha=alpha, linewidth=0)
    axes.plot(
        places, mean, color=look.colour, linestyle=look.dashes, marker=look.marker, clip_on=False
    )


def _end(curve: Curve, name: str, colour: str, *, digits: int = 1) -> tuple[float, float, str, str]:
    """The label of a line at its end, as :func:`end_labels` takes it."""
    place, spread = curve[-1]
    return place, 100 * spread.mean, f"{name}  {100 * spread.mean:.{digits}f}", colour
