"""Write the table of methods as text, Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence

from rebll_avalanche.report.groups import settings_of
from rebll_avalanche.report.runs import Run
from rebll_avalanche.report.table import (
    AVERAGE_MAP,
    LAST_MAP,
    LEVEL,
    Cell,
    Column,
    Row,
    decision_columns,
    rows_of,
)

CEILING = "ceiling"


def compare(runs: Sequence[Run], thresholds: Sequence[float]) -> list[Row]:
    """The rows of a table: ceilings first, then by Last mAP."""
    wanted = columns(thresholds).values()
    return [row for setting in settings_of(runs) for row in rows_of(setting, wanted)]


def columns(thresholds: Sequence[float]) -> dict[str, Column]:
    """The paper's columns by heading: decisions at the first threshold, then at the others.

    >>> list(columns([0.8, 0.5]))
    ['Last mAP', 'CF1', 'OF1', 'FPR', 'Avg mAP', 'CF1@0.5', 'OF1@0.5', 'FPR@0.5']
    """
    first, *others = (decision_columns(f"{threshold:g}") for threshold in thresholds)
    return (
        {"Last mAP": LAST_MAP}
        | {column.title: column for column in first}
        | {"Avg mAP": AVERAGE_MAP}
        | {column.metric: column for some in others for column in some}
    )


def _text(cell: Cell, plus_minus: str = "±", mark: str = "*") -> str:
    deviation = f" {plus_minus} {cell.std}" if cell.std else ""
    return cell.mean + deviation + (mark if cell.worse else "")


def _lines(
    rows: Sequence[Row], thresholds: Sequence[float], text: Callable[[Cell], str]
) -> list[list[str]]:
    metrics = columns(thresholds)
    costs = ["Of Joint", "Minutes", "Peak GB", "Parameters, M"]
    lines = [["Setting", "Method", *metrics, *costs]]
    for row in rows:
        numbers = [
            "-" if row.of_joint is None or row.group.ceiling else f"{row.of_joint:.3f}",
            "-" if row.seconds is None else f"{row.seconds / 60:.1f}",
            "-" if row.peak_bytes is None else f"{row.peak_bytes / 1e9:.1f}",
            "-" if row.parameters is None else f"{row.parameters / 1e6:.2f}",
        ]
        label = row.group.label
        method = f"{label} ({CEILING})" if row.group.ceiling else label
        cells = [text(row.cells[column.metric]) for column in metrics.values()]
        lines.append([row.setting, method, *cells, *numbers])
    return lines


def _note(rows: Sequence[Row], threshold: float) -> str:
    seeds = max((len(row.group.runs) for row in rows), default=0)
    fewest = min((len(row.group.runs) for row in rows), default=0)
    count = f"{fewest} to {seeds}" if fewest != seeds else str(seeds)
    note = f"Percent; F1 and FPR at {threshold:g}; {count} seed{'s' * (seeds != 1)}"
    if seeds < 2:
        return note + ", so without deviation or significance."
    return note + f"; mean ± standard deviation; * worse than the best, paired t-test, p < {LEVEL}."


def as_text(rows: Sequence[Row], thresholds: Sequence[float]) -> str:
    """A table for a terminal, first threshold only; the best of each column in brackets."""
    lines = _lines(
        rows, thresholds[:1], lambda cell: f"[{_text(cell)}]" if cell.best else _text(cell)
    )
    widths = [max(map(len, entries)) for entries in zip(*lines, strict=True)]
    text = [
        "  ".join(
            entry.ljust(width) if index < 2 else entry.rjust(width)
            for index, (entry, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:], _note(rows, thresholds[0])])


def as_markdown(rows: Sequence[Row], thresholds: Sequence[float]) -> str:
    """A Markdown table with every threshold; the best of each column in bold."""
    lines = _lines(
        rows, thresholds, lambda cell: f"**{_text(cell)}**" if cell.best else _text(cell)
    )
    rule = ["---", "---", *["---:"] * (len(lines[0]) - 2)]
    body = [f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:])]
    return "\n".join([*body, "", _note(rows, thresholds[0])]) + "\n"


def as_latex(rows: Sequence[Row], thresholds: Sequence[float]) -> str:
    r"""A LaTeX table for ``booktabs``, first threshold only; the best of each column in bold."""

    def text(cell: Cell) -> str:
        value = _text(cell, plus_minus=r"$\pm$", mark="$^{*}$")
        return rf"\textbf{{{value}}}" if cell.best else value

    lines = [
        [_escaped(entry) if index < 2 else entry for index, entry in enumerate(line)]
        for line in _lines(rows, thresholds[:1], text)
    ]
    body: list[str] = []
    for number, line in enumerate(lines):
        if number == 1 or (number > 1 and line[0] != lines[number - 1][0]):
            body.append(r"\midrule")
        body.append(" & ".join(line) + r" \\")
    alignment = "ll" + "r" * (len(lines[0]) - 2)
    note = "% " + _note(rows, thresholds[0])
    begin, end = rf"\begin{{tabular}}{{{alignment}}}", r"\end{tabular}"
    return "\n".join([note, begin, r"\toprule", *body, r"\bottomrule", end]) + "\n"


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text


def as_csv(rows: Sequence[Row], thresholds: Sequence[float]) -> str:
    """Fractions for programs: mean, deviation and p-value of every column, and the costs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    kinds = ("mean", "std", "p_value")
    metrics = [column.metric for column in columns(thresholds).values()]
    names = [f"{metric} {kind}" for metric in metrics for kind in kinds]
    costs = ("of_joint", "seconds", "peak_bytes", "parameters")
    writer.writerow(["setting", "method", "ceiling", "seeds", *names, *costs])
    for row in rows:
        numbers: list[float | None] = []
        for metric in metrics:
            cell, spread = row.cells[metric], row.cells[metric].spread
            numbers += [spread.mean, spread.std, cell.p_value] if spread else [None] * 3
        numbers += [getattr(row, cost) for cost in costs]
        known = ["" if value is None or math.isnan(value) else value for value in numbers]
        seeds = " ".join(str(run.seed) for run in row.group.runs)
        ceiling = int(row.group.ceiling)
        writer.writerow([row.setting, row.group.label, ceiling, seeds, *known])
    return text.getvalue()
