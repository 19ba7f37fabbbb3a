"""Methods compared over seeds: means, deviations, significance, cost; for people and for papers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rebll_avalanche.report.groups import Group, Setting, Spread, settings_of
from rebll_avalanche.report.runs import read_run

LEVEL = 0.05
CEILING = "ceiling"


@dataclass(frozen=True)
class Column:
    """A metric after the last experience, and how the table calls it."""

    heading: str
    metric: str
    lower_is_better: bool = False


def columns(thresholds: Sequence[float]) -> tuple[Column, ...]:
    """The paper's columns with F1 and false positives at the first threshold, then at the others."""
    first, *others = thresholds
    return (
        Column("Last mAP", "mAP"),
        *_decisions(first, ""),
        Column("Avg mAP", "AvgmAP"),
        *(column for other in others for column in _decisions(other, f"@{other:g}")),
    )


def _decisions(threshold: float, suffix: str) -> tuple[Column, ...]:
    return (
        Column(f"CF1{suffix}", f"CF1@{threshold:g}"),
        Column(f"OF1{suffix}", f"OF1@{threshold:g}"),
        Column(f"FPR{suffix}", f"FPR@{threshold:g}", lower_is_better=True),
    )


@dataclass(frozen=True)
class Cell:
    """One number over seeds.

    Attributes:
        spread: Mean and standard deviation; ``None`` if it was never measured.
        best: Whether it prints the best number of its column and setting, ceilings apart.
        p_value: Of the paired test against the best; NaN where there is nothing to test.
    """

    spread: Spread | None
    best: bool = False
    p_value: float = math.nan

    @property
    def worse(self) -> bool:
        """Whether it is significantly worse than the best."""
        return self.p_value < LEVEL

    def text(self, plus_minus: str = "±", mark: str = "*") -> str:
        """Percent for people."""
        if self.spread is None:
            return "-"
        text = f"{100 * self.spread.mean:.1f}"
        if not math.isnan(self.spread.std):
            text += f" {plus_minus} {100 * self.spread.std:.1f}"
        return text + (mark if self.worse else "")


@dataclass(frozen=True)
class Row:
    """A method in a setting: data, scenario, backbone.

    Attributes:
        setting: As a title.
        method: As a label, with what tells it from its variants.
        ceiling: Trained on everything at once: it does not compete.
        seeds: That have been run.
        cells: By metric.
        of_joint: Last mAP as a share of Joint's; ``None`` without Joint.
        seconds: Of a run, training and evaluation.
        peak_bytes: Most memory in use at once.
        parameters: Numbers that learn, at the end.
    """

    setting: str
    method: str
    ceiling: bool
    seeds: tuple[int, ...]
    cells: dict[str, Cell]
    of_joint: float | None
    seconds: float | None
    peak_bytes: float | None
    parameters: float | None


def compare(folders: Sequence[Path], thresholds: Sequence[float]) -> list[Row]:
    """The rows of a table from finished run folders: ceilings first, then by Last mAP."""
    rows = []
    for setting in settings_of([read_run(folder) for folder in folders]):
        cells = {
            column.metric: _cells(setting, column.metric, column.lower_is_better)
            for column in columns(thresholds)
        }
        ceiling = next((g.last("mAP") for g in setting.groups if g.ceiling), None)
        for place, group in enumerate(setting.groups):
            last = group.last("mAP")
            rows.append(
                Row(
                    setting.title,
                    group.label,
                    group.ceiling,
                    tuple(run.seed for run in group.runs),
                    {metric: found[place] for metric, found in cells.items()},
                    last.mean / ceiling.mean if last and ceiling else None,
                    _mean(group.total(lambda step: step.seconds, sum)),
                    _mean(group.total(lambda step: step.peak_memory_bytes, max)),
                    _mean(group.total(lambda step: step.trainable_parameters, max)),
                )
            )
    return rows


def _mean(spread: Spread | None) -> float | None:
    return spread.mean if spread else None


def _values(group: Group, metric: str) -> dict[int, float]:
    return {run.seed: run.last.metrics[metric] for run in group.runs if metric in run.last.metrics}


def _cells(setting: Setting, metric: str, lower_is_better: bool) -> list[Cell]:
    """One column of a setting, a cell per group."""
    best = setting.best(metric, lower_is_better=lower_is_better)
    winners = [_values(group, metric) for group in setting.groups if group.label in best]
    # Those that print the same number share the mark; a test needs one of them to compare with.
    choose = min if lower_is_better else max
    winner = choose(winners, key=lambda values: sum(values.values()) / len(values), default={})
    cells = []
    for group in setting.groups:
        spread = group.last(metric)
        if spread is None or group.ceiling or group.label in best:
            cells.append(Cell(spread, best=group.label in best))
        else:
            cells.append(Cell(spread, p_value=paired_p_value(_values(group, metric), winner)))
    return cells


def paired_p_value(first: dict[int, float], second: dict[int, float]) -> float:
    """Two-sided paired t-test over the seeds that both have; NaN with fewer than two.

    >>> round(paired_p_value({0: 0.5, 1: 0.52, 2: 0.49}, {0: 0.6, 1: 0.63, 2: 0.58}), 4)
    0.0033
    """
    seeds = sorted(first.keys() & second.keys())
    differences = [first[seed] - second[seed] for seed in seeds]
    if len(seeds) < 2:
        return math.nan
    if len(set(differences)) == 1:  # no spread: the test has nothing to divide by
        return 1.0 if differences[0] == 0 else 0.0
    from scipy.stats import ttest_1samp  # type: ignore[import-untyped]

    return float(ttest_1samp(differences, 0).pvalue)


def _lines(
    rows: Sequence[Row], thresholds: Sequence[float], text: Callable[[Cell], str]
) -> list[list[str]]:
    metrics = columns(thresholds)
    costs = ["Of Joint", "Minutes", "Peak GB", "Parameters, M"]
    lines = [["Setting", "Method", *(column.heading for column in metrics), *costs]]
    for row in rows:
        numbers = [
            "-" if row.of_joint is None or row.ceiling else f"{row.of_joint:.3f}",
            "-" if row.seconds is None else f"{row.seconds / 60:.1f}",
            "-" if row.peak_bytes is None else f"{row.peak_bytes / 1e9:.1f}",
            "-" if row.parameters is None else f"{row.parameters / 1e6:.2f}",
        ]
        method = f"{row.method} ({CEILING})" if row.ceiling else row.method
        cells = [text(row.cells[column.metric]) for column in metrics]
        lines.append([row.setting, method, *cells, *numbers])
    return lines


def _note(rows: Sequence[Row], threshold: float) -> str:
    seeds = max((len(row.seeds) for row in rows), default=0)
    fewest = min((len(row.seeds) for row in rows), default=0)
    count = f"{fewest} to {seeds}" if fewest != seeds else str(seeds)
    note = f"Percent; F1 and FPR at {threshold:g}; {count} seed{'s' * (seeds != 1)}"
    if seeds < 2:
        return note + ", so without deviation or significance."
    return note + f"; mean ± standard deviation; * worse than the best, paired t-test, p < {LEVEL}."


def as_text(rows: Sequence[Row], thresholds: Sequence[float]) -> str:
    """A table for a terminal, first threshold only; the best of each column in brackets."""
    lines = _lines(
        rows, thresholds[:1], lambda cell: f"[{cell.text()}]" if cell.best else cell.text()
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
        rows, thresholds, lambda cell: f"**{cell.text()}**" if cell.best else cell.text()
    )
    rule = ["---", "---", *["---:"] * (len(lines[0]) - 2)]
    body = [f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:])]
    return "\n".join([*body, "", _note(rows, thresholds[0])]) + "\n"


def as_latex(rows: Sequence[Row], thresholds: Sequence[float]) -> str:
    r"""A LaTeX table for ``booktabs``, first threshold only; the best of each column in bold."""

    def text(cell: Cell) -> str:
        value = cell.text(plus_minus=r"$\pm$", mark="$^{*}$")
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
    names = [f"{column.metric} {kind}" for column in columns(thresholds) for kind in kinds]
    costs = ("of_joint", "seconds", "peak_bytes", "parameters")
    writer.writerow(["setting", "method", "ceiling", "seeds", *names, *costs])
    for row in rows:
        numbers: list[float | None] = []
        for cell in row.cells.values():
            spread = cell.spread
            numbers += [spread.mean, spread.std, cell.p_value] if spread else [None] * 3
        numbers += [getattr(row, cost) for cost in costs]
        known = ["" if value is None or math.isnan(value) else value for value in numbers]
        seeds = " ".join(map(str, row.seeds))
        writer.writerow([row.setting, row.method, int(row.ceiling), seeds, *known])
    return text.getvalue()
