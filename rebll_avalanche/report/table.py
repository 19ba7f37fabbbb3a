"""The table of a setting, with the paper's columns."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from rebll_avalanche.report.groups import Group, Setting, Spread
from rebll_avalanche.report.names import percent


@dataclass(frozen=True)
class Column:
    """A metric of the table.

    Attributes:
        title: In the head.
        metric: Its name in the result files.
        lower_is_better: As for false positives.
    """

    title: str
    metric: str
    lower_is_better: bool = False


@dataclass(frozen=True)
class Cell:
    """A number as people read it."""

    mean: str
    std: str
    best: bool


@dataclass(frozen=True)
class Row:
    """An experiment: its cells in the order of the columns."""

    group: Group
    cells: tuple[tuple[Cell, ...], ...]
    note: str


@dataclass(frozen=True)
class Table:
    """Blocks of columns under common titles, and a row per experiment."""

    blocks: tuple[tuple[str, tuple[Column, ...]], ...]
    rows: tuple[Row, ...]


def setting_table(setting: Setting) -> Table:
    """Mean and standard deviation over seeds; the best of each column among what competes is marked."""
    blocks = _blocks(setting)
    best = {
        column.metric: setting.best(column.metric, lower_is_better=column.lower_is_better)
        for _, columns in blocks
        for column in columns
    }
    rows = []
    for group in setting.groups:
        cells = tuple(
            tuple(
                _cell(group.last(column.metric), group.label in best[column.metric])
                for column in columns
            )
            for _, columns in blocks
        )
        rows.append(Row(group, cells, _note(group, setting)))
    return Table(blocks, tuple(rows))


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


def _blocks(setting: Setting) -> tuple[tuple[str, tuple[Column, ...]], ...]:
    blocks = []
    for place, threshold in enumerate(thresholds(setting)):
        columns = [
            Column("CF1", f"CF1@{threshold}"),
            Column("OF1", f"OF1@{threshold}"),
            Column("FPR", f"FPR@{threshold}", lower_is_better=True),
        ]
        if place == 0:
            columns.insert(0, Column("mAP", "mAP"))
        blocks.append((f"Last, scores above {threshold}", tuple(columns)))
    if not blocks:
        blocks.append(("Last", (Column("mAP", "mAP"),)))
    blocks.append(("Avg", (Column("mAP", "AvgmAP"),)))
    return tuple(blocks)


def _cell(spread: Spread | None, best: bool) -> Cell:
    if spread is None:
        return Cell("-", "", False)
    return Cell(percent(spread.mean), "" if math.isnan(spread.std) else percent(spread.std), best)


def _note(group: Group, setting: Setting) -> str:
    done = min(len(run.steps) for run in group.runs)
    if group.ceiling or done == setting.experiences:
        return ""
    return f"{done} of {setting.experiences} experiences"
