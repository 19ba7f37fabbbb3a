"""The paper's figures beside what was measured: writes outputs/reproducibility.md.

    python benchmarks/paper/compare.py runs/small runs/features

What the run folders hold is added to ``measured.csv`` first; the page is drawn from that file. A network of
another size has another ceiling, so the share of Joint that a method keeps (Last mAP over Joint's Last
mAP) is compared, and false positives where the paper gives them.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml
from measured import METRICS, Experiment, Measured, combined, from_run, read, updated, write

from rebll_avalanche.report.runs import read_runs
from rebll_avalanche.running.folder import is_finished

HERE = Path(__file__).parent
# How far a share of Joint may lie from the paper's, and false positives in points.
SHARE, POINTS = 0.03, 2.0
HEADINGS = (
    "method", "paper: Last / CF1 / OF1 / Avg / FPR", "share", "measured, at 0.8", "share",
    "seeds", "status", "how",
)  # fmt: skip
BEST = {"alpha": ("figure5_alpha", "akd", 1.2), "beta": ("figure5_beta", "rebll", 0.7)}
# Parameters that the paper does not give: what was measured with one value or another is all shown.
LEFT_OPEN = {"csc": "entropy_reduction"}
DRAWN = {
    "figure2b": "score histograms",
    "figure3": "label block matrix of the memory",
    "figure4": "mAP after each experience",
    "figure6": "class activation maps",
}

Row = dict[str, str]
Found = Mapping[Experiment, Measured]


def find(found: Found, row: Row) -> list[Measured]:
    """Measurements of a row of the paper, one for each network."""
    if row["method"] == "joint":
        joints = [e for e in found if (e.benchmark, e.method) == (row["benchmark"], "joint")]
        same = {(e.network, e.optimizer): e for e in joints}
        return [joint for e in same.values() if (joint := ceiling(found, e))]
    wanted = (row["benchmark"], row["scenario"], row["method"])
    parameters = ("", LEFT_OPEN.get(row["method"], ""))
    return [
        line
        for (e, line) in found.items()
        if (e.benchmark, e.scenario, e.method) == wanted and e.parameter in parameters
    ]


def ceiling(found: Found, of: Experiment) -> Measured | None:
    """Joint with the same network and optimizer on the same data: most seeds, then the same scenario."""
    joints = [
        (len(line.seeds), e.scenario == of.scenario, line)
        for (e, line) in found.items()
        if (e.benchmark, e.method, e.network, e.optimizer)
        == (of.benchmark, "joint", of.network, of.optimizer)
    ]
    return max(joints, key=lambda entry: entry[:2])[2] if joints else None


def paper_share(rows: Sequence[Row], row: Row) -> float | None:
    """Last mAP over Joint's in the same table."""
    joint = [
        float(other["mAP"])
        for other in rows
        if other["method"] == "joint" and other["scenario"] == row["scenario"]
    ]
    return float(row["mAP"]) / joint[0] if joint and row["mAP"] else None


def judge(row: Row, share: float | None, line: Measured, joint: Measured | None) -> tuple[str, str]:
    """Measured share and status."""
    if row["method"] == "joint":
        return "1.000", "ceiling"
    if share is None:
        close = abs(line.means["FPR"] - float(row["FPR"])) <= POINTS
        return "", "verified" if close else "differs"
    if joint is None:
        return "", "not verified: no Joint run"
    measured = line.means["mAP"] / joint.means["mAP"]
    if abs(measured - share) <= SHARE:
        return f"{measured:.3f}", "verified"
    return f"{measured:.3f}", f"differs: {'above' if measured > share else 'below'}"


def lines_of(
    rows: Sequence[Row], where: str, scenario: str, found: Found, notes: Row
) -> Iterator[list[str]]:
    """The lines of one table in one scenario, with their notes in the last column."""
    for row in rows:
        if (row["where"], row["scenario"]) != (where, scenario):
            continue
        share = paper_share(rows, row)
        paper = " / ".join(row[name] or "-" for name in METRICS)
        printed = f"{share:.3f}" if share is not None else ""
        measured = find(found, row)
        # A method's own note explains its results, so it applies only where the method has been run.
        of_method = notes.get(row["method"], "") if measured else "not run"
        note = notes.get(f"{where} {scenario} {row['method']}", of_method)
        if not measured:
            yield [row["method"], paper, printed, "", "", "0", "not verified", note, ""]
        for line in measured:
            values = [f"{line.means[name]:.1f}" if name in line.means else "-" for name in METRICS]
            kept, status = judge(row, share, line, ceiling(found, line.experiment))
            e = line.experiment
            chosen = f"{e.parameter} {e.value}" if e.parameter else ""
            why = "; ".join(filter(None, (f"{e.network}, {e.training}", chosen)))
            seeds, shown = str(len(line.seeds)), " / ".join(values)
            yield [row["method"], paper, printed, shown, kept, seeds, status, why, note]


def sweep_lines(found: Found) -> Iterator[str]:
    """Where the best values of alpha and beta lie."""
    for parameter, (recipe, method, best) in BEST.items():
        points: dict[tuple[str, str, str, str], dict[float, float]] = {}
        for e, line in found.items():
            if e.method == method and e.parameter in ("", parameter):
                value = float(e.value) if e.parameter else best
                place = (e.benchmark, e.scenario, e.network, e.training)
                points.setdefault(place, {})[value] = line.means["mAP"]
        swept = {place: values for place, values in points.items() if len(values) > 1}
        for place, values in swept.items():
            said = ", ".join(f"{value:g}: {values[value]:.1f}" for value in sorted(values))
            top = max(values, key=lambda value: values[value])
            status = "verified" if top == best else f"differs: best {top:g}"
            where = f"{place[0]} {place[1]}, {place[2]}, {place[3]}"
            yield f"| {recipe} | best {parameter} {best:g} | {said} ({where}) | {status} |"
        if not swept:
            yield f"| {recipe} | best {parameter} {best:g} | not run | not verified |"


def page(rows: Sequence[Row], measured: Sequence[Measured], notes: Row) -> str:
    """The introduction in ``README.md``, and the tables below it."""
    found = combined(measured)
    sections: list[str] = []
    statuses: Counter[str] = Counter()
    reasons: dict[str, int] = {}
    for where, scenario in dict.fromkeys((row["where"], row["scenario"]) for row in rows):
        table = [list(HEADINGS), ["---"] * len(HEADINGS)]
        for *line, why, note in lines_of(rows, where, scenario, found, notes):
            statuses[line[-1].partition(":")[0]] += 1
            mark = f"[^{reasons.setdefault(note, len(reasons) + 1)}]" if note else ""
            table.append([*line, f"{why}{mark}"])
        name = next(row["benchmark"] for row in rows if row["where"] == where)
        sections.append(f"## {where}.yaml: {name} {scenario}")
        sections.append("\n".join(f"| {' | '.join(line)} |" for line in table))
    tally = ", ".join(f"{statuses[status]} {status}" for status in sorted(statuses))
    parts = [
        (HERE / "README.md").read_text().rstrip(),
        f"**Rows**, one for each way in which a row of the paper was measured: {tally}.",
        *sections,
    ]
    parts.append("## Figures without numbers")
    parts.append(
        "\n".join(
            ["| recipe | paper | measured | status |", "|---|---|---|---|", *sweep_lines(found)]
        )
    )
    drawn = [f"`{recipe}.yaml` ({what})" for recipe, what in DRAWN.items()]
    parts.append(
        f"Drawn into the page that `rebll table` writes beside its table: {', '.join(drawn)}."
    )
    if measured:
        parts.append(f"{sum(len(line.seeds) for line in measured)} runs.")
    parts += [f"[^{number}]: {note}." for note, number in reasons.items()]
    return "\n\n".join(parts) + "\n"


def page_of(measured: Path) -> str:
    """The page of the rows in a file."""
    with open(HERE / "figures.csv", newline="") as lines:
        rows = list(csv.DictReader(lines))
    notes = yaml.safe_load((HERE / "notes.yaml").read_text()) or {}
    return page(rows, read(measured), notes)


def main() -> None:
    """Read runs, keep what they measured, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path, help="folders that hold run folders")
    parser.add_argument("-m", "--measured", type=Path, default=HERE / "measured.csv")
    parser.add_argument("-o", "--output", type=Path, default=Path("outputs/reproducibility.md"))
    arguments = parser.parse_args()
    runs, left_out = read_runs(arguments.runs)
    for reason in left_out:
        print(f"left out: {reason}")
    new = [line for run in runs if is_finished(run.folder) and (line := from_run(run))]
    measured, unused = updated(read(arguments.measured), new)
    write(arguments.measured, measured)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(page_of(arguments.measured))
    print(f"{len(new)} runs read; {arguments.measured}, {arguments.output}")
    if unused:
        print(
            f"{unused} of them are not used: the mean they belong to needs all of its seeds again"
        )


if __name__ == "__main__":
    main()
