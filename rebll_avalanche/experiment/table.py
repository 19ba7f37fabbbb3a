"""Methods compared over seeds: means, deviations, significance; for people and for papers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rebll_avalanche.experiment.config import Config
from rebll_avalanche.experiment.methods import METHOD_OPTIONS
from rebll_avalanche.report.groups import Spread
from rebll_avalanche.report.runs import Run, read_run

LEVEL = 0.05


@dataclass(frozen=True)
class Column:
    """A number of the table: its heading and its metric after the last experience."""

    heading: str
    metric: str


def columns(threshold: float) -> tuple[Column, ...]:
    """The paper's columns, with F1 at a threshold."""
    return (
        Column("Last mAP", "mAP"),
        Column("CF1", f"CF1@{threshold:g}"),
        Column("OF1", f"OF1@{threshold:g}"),
        Column("Avg mAP", "AvgmAP"),
    )


@dataclass(frozen=True)
class Cell:
    """One number over seeds.

    Attributes:
        spread: Mean and standard deviation; ``None`` if it was never measured.
        best: Whether it is the best of its column and scenario, ceilings apart.
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
    """A method in a scenario."""

    scenario: str
    method: str
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]


def plan(
    recipe: Config, methods: Sequence[str], scenarios: Sequence[str], seeds: Sequence[int]
) -> list[Config]:
    """One configuration per method, scenario and seed.

    The recipe's parameters belong to its own method; the others have their defaults, apart from the
    size of the memory, which all that have one share.
    """
    configs = []
    for scenario in scenarios:
        benchmark = replace(recipe.benchmark, scenario=scenario)
        for name in methods:
            options = dict(recipe.method_options) if name == recipe.method_name else {}
            if "mem_size" in recipe.method and "mem_size" in METHOD_OPTIONS[name]:
                options["mem_size"] = recipe.method["mem_size"]
            method = {"name": name, **options}
            configs += [
                replace(recipe, benchmark=benchmark, method=method, seed=seed) for seed in seeds
            ]
    return configs


def compare(folders: Sequence[Path], threshold: float) -> list[Row]:
    """The rows of a table from finished run folders, scenarios and methods in their order."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for folder in folders:
        run = read_run(folder)
        scenario = str(run.config["benchmark"]["scenario"])
        groups.setdefault((scenario, run.label), []).append(run)
    rows = []
    for (scenario, label), runs in groups.items():
        rivals = [
            others
            for (where, _), others in groups.items()
            if where == scenario and not others[0].joint
        ]
        cells = tuple(_cell(runs, rivals, column.metric) for column in columns(threshold))
        rows.append(Row(scenario, label, tuple(run.seed for run in runs), cells))
    return rows


def _values(runs: Sequence[Run], metric: str) -> dict[int, float]:
    return {run.seed: run.last.metrics[metric] for run in runs if metric in run.last.metrics}


def _cell(runs: Sequence[Run], rivals: Sequence[Sequence[Run]], metric: str) -> Cell:
    mine = _values(runs, metric)
    spread = Spread.of(mine.values())
    measured = [values for rival in rivals if (values := _values(rival, metric))]
    if spread is None or runs[0].joint or not measured:
        return Cell(spread)
    best = max(measured, key=lambda values: sum(values.values()) / len(values))
    if best == mine:
        return Cell(spread, best=True)
    return Cell(spread, p_value=paired_p_value(mine, best))


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


def _lines(rows: Sequence[Row], threshold: float, text: Callable[[Cell], str]) -> list[list[str]]:
    heading = ["Scenario", "Method", *(column.heading for column in columns(threshold))]
    return [heading, *([row.scenario, row.method, *map(text, row.cells)] for row in rows)]


def _note(rows: Sequence[Row]) -> str:
    seeds = max((len(row.seeds) for row in rows), default=0)
    note = f"Percent; {seeds} seed{'s' * (seeds != 1)}"
    if seeds < 2:
        return note + ", so without deviation or significance."
    return note + f"; mean ± standard deviation; * worse than the best, paired t-test, p < {LEVEL}."


def as_text(rows: Sequence[Row], threshold: float) -> str:
    """A table for a terminal; the best of each column in brackets."""
    lines = _lines(rows, threshold, lambda cell: f"[{cell.text()}]" if cell.best else cell.text())
    widths = [max(map(len, entries)) for entries in zip(*lines, strict=True)]
    text = [
        "  ".join(
            entry.ljust(width) if index < 2 else entry.rjust(width)
            for index, (entry, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:], _note(rows)])


def as_markdown(rows: Sequence[Row], threshold: float) -> str:
    """A Markdown table; the best of each column in bold."""
    lines = _lines(rows, threshold, lambda cell: f"**{cell.text()}**" if cell.best else cell.text())
    rule = ["---", "---", *["---:"] * len(columns(threshold))]
    body = [f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:])]
    return "\n".join([*body, "", _note(rows)]) + "\n"


def as_latex(rows: Sequence[Row], threshold: float) -> str:
    r"""A LaTeX table for ``booktabs``; the best of each column in bold."""

    def text(cell: Cell) -> str:
        value = cell.text(plus_minus=r"$\pm$", mark="$^{*}$")
        return rf"\textbf{{{value}}}" if cell.best else value

    lines = [
        [_escaped(entry) if index < 2 else entry for index, entry in enumerate(line)]
        for line in _lines(rows, threshold, text)
    ]
    body: list[str] = []
    for number, line in enumerate(lines):
        if number == 1 or (number > 1 and line[0] != lines[number - 1][0]):
            body.append(r"\midrule")
        body.append(" & ".join(line) + r" \\")
    alignment = "ll" + "r" * len(columns(threshold))
    note = "% " + _note(rows)
    begin, end = rf"\begin{{tabular}}{{{alignment}}}", r"\end{tabular}"
    return "\n".join([note, begin, r"\toprule", *body, r"\bottomrule", end]) + "\n"


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text


def as_csv(rows: Sequence[Row], threshold: float) -> str:
    """Fractions for programs: mean, deviation and p-value of every column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    kinds = ("mean", "std", "p_value")
    names = [f"{column.metric} {kind}" for column in columns(threshold) for kind in kinds]
    writer.writerow(["scenario", "method", "seeds", *names])
    for row in rows:
        numbers: list[float | str] = []
        for cell in row.cells:
            spread = cell.spread
            found = (spread.mean, spread.std, cell.p_value) if spread is not None else ("",) * 3
            numbers += ["" if value != value else value for value in found]
        writer.writerow([row.scenario, row.method, " ".join(map(str, row.seeds)), *numbers])
    return text.getvalue()
