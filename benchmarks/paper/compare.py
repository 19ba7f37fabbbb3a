"""The paper's figures beside those of run folders: writes benchmarks/REPRODUCIBILITY.md.

    python benchmarks/paper/compare.py runs/small runs/features

A network of another size has another ceiling, so the share of Joint that a method keeps (Last mAP over
Joint's Last mAP) is compared, and false positives where the paper gives them.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from rebll_avalanche.experiment.folder import is_finished
from rebll_avalanche.report.groups import Group, Setting, settings_of, sweeps_of
from rebll_avalanche.report.names import duration
from rebll_avalanche.report.runs import Run, read_runs

HERE = Path(__file__).parent
# How far a share of Joint may lie from the paper's, and false positives in points.
SHARE, POINTS = 0.03, 2.0
METRICS = ("mAP", "CF1@0.8", "OF1@0.8", "AvgmAP", "FPR@0.8")
HEADINGS = (
    "method", "paper: Last / CF1 / OF1 / Avg / FPR", "share", "measured, at 0.8", "share",
    "seeds", "status", "why",
)  # fmt: skip
BEST = {"alpha": ("figure5_alpha", "akd", 1.2), "beta": ("figure5_beta", "rebll", 0.7)}
DRAWN = {
    "figure2b": "score histograms",
    "figure3": "label block matrix of the memory",
    "figure4": "mAP after each experience",
    "figure6": "class activation maps",
}

Row = dict[str, str]


def as_printed(run: Run) -> bool:
    """Whether a run may stand for a row of the paper: test images, the method's own parameters."""
    method = {key: value for key, value in run.config["method"].items() if value is not None}
    own = method.keys() - {"name", "mem_size", "preset"}
    printed = not own and method.get("preset", "paper") == "paper"
    tested = run.config["evaluation"]["stream"] == "test"
    return printed and tested and not run.config.get("extensions")


def network(run: Run) -> str:
    """What a run saw and learned with."""
    benchmark, epochs = run.config["benchmark"], run.config["training"]["epochs"]
    name = run.config["model"]["backbone"]
    if features := benchmark.get("features"):
        until = benchmark.get("features_until")
        name = f"{features} from {until} on" if until else f"vectors of {features}"
    return f"{name}, {benchmark['image_size'] or 224} px, {epochs} epochs"


def find(settings: Sequence[Setting], row: Row) -> Iterator[Group]:
    """The runs of a row, one group per setting: the one with most seeds."""
    for setting in settings:
        groups = [
            group
            for group in setting.groups
            if group.method == row["method"]
            and group.first.config["benchmark"]["name"] == row["benchmark"]
            and group.first.config["benchmark"]["scenario"] == row["scenario"]
        ]
        if groups:
            yield max(groups, key=lambda group: len(group.runs))


def ceiling(settings: Sequence[Setting], run: Run) -> Group | None:
    """Joint with the same network on the same images; which scenario it was run for does not matter."""
    groups = [
        group
        for setting in settings
        for group in setting.groups
        if group.method == "joint"
        and group.first.config["benchmark"]["name"] == run.config["benchmark"]["name"]
        and network(group.first) == network(run)
    ]
    return max(groups, key=lambda group: len(group.runs), default=None)


def paper_share(rows: Sequence[Row], row: Row) -> float | None:
    """Last mAP over Joint's in the same table."""
    joint = [
        float(other["mAP"])
        for other in rows
        if other["method"] == "joint" and other["scenario"] == row["scenario"]
    ]
    return float(row["mAP"]) / joint[0] if joint and row["mAP"] else None


def judge(row: Row, share: float | None, group: Group, joint: Group | None) -> tuple[str, str]:
    """Measured share and status."""
    if row["method"] == "joint":
        return "1.000", "ceiling"
    if share is None:
        rate = group.last("FPR@0.8")
        assert rate is not None
        close = abs(100 * rate.mean - float(row["FPR"])) <= POINTS
        return "", "verified" if close else "differs"
    last, most = group.last("mAP"), joint.last("mAP") if joint else None
    if last is None or most is None:
        return "", "not verified: no Joint run"
    measured = last.mean / most.mean
    if abs(measured - share) <= SHARE:
        return f"{measured:.3f}", "verified"
    return f"{measured:.3f}", f"differs: {'above' if measured > share else 'below'}"


def lines_of(
    rows: Sequence[Row], where: str, scenario: str, settings: Sequence[Setting], notes: Row
) -> Iterator[list[str]]:
    """The lines of one table in one scenario."""
    for row in rows:
        if (row["where"], row["scenario"]) != (where, scenario):
            continue
        share = paper_share(rows, row)
        paper = " / ".join(row[name] or "-" for name in ("mAP", "CF1", "OF1", "AvgmAP", "FPR"))
        printed = f"{share:.3f}" if share is not None else ""
        found = list(find(settings, row))
        # A method's own note is about what it reached; where nobody has run it there is nothing to say.
        of_method = notes.get(row["method"], "") if found else "not run"
        note = notes.get(f"{where} {scenario} {row['method']}", of_method)
        if not found:
            yield [row["method"], paper, printed, "", "", "0", "not verified", note]
        for group in found:
            joint = ceiling(settings, group.first)
            spreads = [group.last(metric) for metric in METRICS]
            values = [f"{100 * spread.mean:.1f}" if spread else "-" for spread in spreads]
            measured, status = judge(row, share, group, joint)
            seeds, why = str(len(group.runs)), network(group.first)
            yield [
                row["method"], paper, printed, " / ".join(values), measured, seeds, status,
                f"{why}; {note}" if note else why,
            ]  # fmt: skip


def sweep_lines(settings: Sequence[Setting]) -> Iterator[str]:
    """Where the best values of alpha and beta lie."""
    for parameter, (recipe, method, best) in BEST.items():
        found = False
        for setting in settings:
            for sweep in sweeps_of(setting):
                if (sweep.parameter, sweep.method) != (parameter, method):
                    continue
                found = True
                points = [(value, group.last("mAP")) for value, group in sweep.points]
                said = ", ".join(f"{v:g}: {100 * s.mean:.1f}" for v, s in points if s)
                top = max((p for p in points if p[1]), key=lambda p: p[1].mean)[0]
                status = "verified" if top == best else f"differs: best {top:g}"
                yield f"| {recipe} | best {parameter} {best:g} | {said} ({setting.title}) | {status} |"
        if not found:
            yield f"| {recipe} | best {parameter} {best:g} | not run | not verified |"


def page(rows: Sequence[Row], runs: Sequence[Run], notes: Row) -> str:
    """All of ``REPRODUCIBILITY.md``."""
    printed = settings_of([run for run in runs if as_printed(run)])
    swept = settings_of([run for run in runs if run.config["evaluation"]["stream"] == "test"])
    parts = [
        "# What of the paper has been reproduced",
        "Drawn by `benchmarks/paper/compare.py` from run folders and `benchmarks/paper/figures.csv`; what is "
        "added by hand stands in `benchmarks/paper/notes.yaml`. Percent. *Share* is Last mAP over Joint's "
        "Last mAP, the only figure that carries over between networks. "
        f"**verified**: the share lies within {SHARE:g} of the paper's (false positives alone: within "
        f"{POINTS:g} points); **differs**: it does not; **not verified**: nobody has run it. A row that was "
        "verified with another network says that the method behaves as printed, not that the paper's own "
        "numbers were obtained; these need the profile `paper` and a GPU.",
        "Every row comes from `rebll table benchmarks/paper/RECIPE.yaml --profile PROFILE --data-root DATA` "
        "with the recipe that the heading names.",
    ]
    for where, scenario in dict.fromkeys((row["where"], row["scenario"]) for row in rows):
        lines = lines_of(rows, where, scenario, printed, notes)
        table = [list(HEADINGS), ["---"] * len(HEADINGS), *lines]
        name = next(row["benchmark"] for row in rows if row["where"] == where)
        parts.append(f"## {where}.yaml: {name} {scenario}")
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in table))
    parts.append("## Figures without numbers")
    parts.append(
        "\n".join(
            ["| recipe | paper | measured | status |", "|---|---|---|---|", *sweep_lines(swept)]
        )
    )
    drawn = [f"`{recipe}.yaml` ({what})" for recipe, what in DRAWN.items()]
    parts.append(
        f"Drawn into the page that `rebll table` writes beside its table: {', '.join(drawn)}."
    )
    if runs:
        seconds = sum(step.seconds for run in runs for step in run.steps)
        parts.append(f"{len(runs)} runs, {duration(seconds)} of training and evaluation.")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Read figures and runs, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path, help="folders that hold run folders")
    parser.add_argument("-o", "--output", type=Path, default=HERE.parent / "REPRODUCIBILITY.md")
    arguments = parser.parse_args()
    with open(HERE / "figures.csv", newline="") as lines:
        rows = list(csv.DictReader(lines))
    notes = yaml.safe_load((HERE / "notes.yaml").read_text()) or {}
    runs, left_out = read_runs(arguments.runs)
    for reason in left_out:
        print(f"left out: {reason}")
    finished = [run for run in runs if is_finished(run.folder)]
    arguments.output.write_text(page(rows, finished, notes))
    print(arguments.output)


if __name__ == "__main__":
    main()
