"""The table of a setting: the paper's columns over seeds, the best of each, significance, cost.

The page shows it as HTML; :mod:`rebll_avalanche.report.comparison` prints the same cells in other forms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from rebll_avalanche.report.groups import Group, Setting, Spread
from rebll_avalanche.report.names import percent

LEVEL = 0.05


@dataclass(frozen=True)
class Column:
    """A metric after the last experience.

    Attributes:
        title: Title in the table head.
        metric: Its name in the result files.
        lower_is_better: Whether lower is better, as for false positives.
    """

    title: str
    metric: str
    lower_is_better: bool = False


LAST_MAP, AVERAGE_MAP = Column("mAP", "mAP"), Column("mAP", "AvgmAP")


def decision_columns(threshold: str) -> tuple[Column, ...]:
    """F1 and false positives of the decisions at a threshold."""
    return (
        Column("CF1", f"CF1@{threshold}"),
        Column("OF1", f"OF1@{threshold}"),
        Column("FPR", f"FPR@{threshold}", lower_is_better=True),
    )


@dataclass(frozen=True)
class Cell:
    """One number over seeds.

    Attributes:
        spread: Mean and standard deviation; ``None`` if it was never measured.
        best: Whether it prints the best number of its column and setting, excluding joint training.
        p_value: p-value of the paired test against the best; NaN if there is nothing to test.
    """

    spread: Spread | None
    best: bool = False
    p_value: float = math.nan

    @property
    def worse(self) -> bool:
        """Whether it is significantly worse than the best."""
        return self.p_value < LEVEL

    @property
    def mean(self) -> str:
        """The mean in percent, as text."""
        return percent(self.spread.mean if self.spread else None)

    @property
    def std(self) -> str:
        """The standard deviation in percent, as text; empty for a single seed."""
        return percent(self.spread.std) if self.spread and self.spread.count > 1 else ""


@dataclass(frozen=True)
class Row:
    """A method in a setting: data, scenario, backbone.

    Attributes:
        setting: Title of the setting.
        group: Its runs.
        cells: Cells by metric.
        of_joint: Last mAP as a fraction of Joint's; ``None`` without Joint.
        seconds: Duration of a run, training and evaluation.
        peak_bytes: Peak memory.
        parameters: Number of trainable parameters at the end.
        note: Remark on the runs.
    """

    setting: str
    group: Group
    cells: dict[str, Cell]
    of_joint: float | None
    seconds: float | None
    peak_bytes: float | None
    parameters: float | None
    note: str


@dataclass(frozen=True)
class Table:
    """Blocks of columns under common titles, and a row per experiment."""

    blocks: tuple[tuple[str, tuple[Column, ...]], ...]
    rows: list[Row]


def setting_table(setting: Setting) -> Table:
    """Build the table of a setting with every measured threshold, highest first."""
    blocks = _blocks(setting)
    return Table(blocks, rows_of(setting, [column for _, some in blocks for column in some]))


def thresholds(setting: Setting) -> list[str]:
    """The thresholds that F1 was measured at, highest (the field's headline) first."""
    found = {
        match[1]
        for group in setting.groups
        for run in group.runs
        for metric in run.last.metrics
        if (match := re.fullmatch(r"CF1@([\d.]+)", metric))
    }
    return sorted(found, key=float, reverse=True)


def rows_of(setting: Setting, columns: Iterable[Column]) -> list[Row]:
    """A row per experiment: ceilings first, then by Last mAP."""
    cells = {column.metric: _cells(setting, column) for column in columns}
    ceiling = next((group.last("mAP") for group in setting.groups if group.ceiling), None)
    rows = []
    for place, group in enumerate(setting.groups):
        last = group.last("mAP")
        rows.append(
            Row(
                setting.title,
                group,
                {metric: found[place] for metric, found in cells.items()},
                last.mean / ceiling.mean if last and ceiling else None,
                _mean(group.total("seconds", sum)),
                _mean(group.total("peak_memory_bytes", max)),
                _mean(group.total("trainable_parameters", max)),
                _note(group, setting),
            )
        )
    return rows


def paired_p_value(first: dict[int, float], second: dict[int, float]) -> float:
    """Two-sided paired t-test over the seeds that both have; NaN with fewer than two.

    >>> round(paired_p_value({0: 0.5, 1: 0.52, 2: 0.49}, {0: 0.6, 1: 0.63, 2: 0.58}), 4)
    0.0033
    """
    seeds = sorted(first.keys() & second.keys())
    differences = [first[seed] - second[seed] for seed in seeds]
    if len(seeds) < 2:
        return math.nan
    if len(set(differences)) == 1:  # no variance: the test would divide by zero
        return 1.0 if differences[0] == 0 else 0.0
    from scipy.stats import ttest_1samp  # type: ignore[import-untyped]

    return float(ttest_1samp(differences, 0).pvalue)


def _blocks(setting: Setting) -> tuple[tuple[str, tuple[Column, ...]], ...]:
    blocks = []
    for place, threshold in enumerate(thresholds(setting)):
        first = () if place else (LAST_MAP,)
        blocks.append((f"Last, scores above {threshold}", (*first, *decision_columns(threshold))))
    return (*(blocks or [("Last", (LAST_MAP,))]), ("Avg", (AVERAGE_MAP,)))


def _cells(setting: Setting, column: Column) -> list[Cell]:
    """One column of a setting, a cell per group."""
    metric = column.metric
    best = setting.best(metric, lower_is_better=column.lower_is_better)
    winners = [_values(group, metric) for group in setting.groups if group.label in best]
    # Equal printed numbers are all marked as best; the test compares with one of them.
    choose = min if column.lower_is_better else max
    winner = choose(winners, key=lambda values: sum(values.values()) / len(values), default={})
    cells = []
    for group in setting.groups:
        spread = group.last(metric)
        if spread is None or group.ceiling or group.label in best:
            cells.append(Cell(spread, best=group.label in best))
        else:
            cells.append(Cell(spread, p_value=paired_p_value(_values(group, metric), winner)))
    return cells


def _values(group: Group, metric: str) -> dict[int, float]:
    return {run.seed: run.last.metrics[metric] for run in group.runs if metric in run.last.metrics}


def _mean(spread: Spread | None) -> float | None:
    return spread.mean if spread else None


def _note(group: Group, setting: Setting) -> str:
    done = min(len(run.steps) for run in group.runs)
    if group.ceiling or done == setting.experiences:
        return ""
    return f"{done} of {setting.experiences} experiences"
