"""The page of results: measured rows beside the paper's, each with the command that measures it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from rebll_avalanche.methods import describe

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "paper"))
from compare import Row, ceiling, paper_share  # noqa: E402
from measured import Experiment, Measured, combined, read  # noqa: E402

MEASURED = ROOT / "benchmarks" / "paper" / "measured.csv"
PAPER = ROOT / "benchmarks" / "paper" / "figures.csv"
CLOSED_FORM = ROOT / "benchmarks" / "closed_form" / "results.csv"
STREAMS = ROOT / "benchmarks" / "streams" / "closed_form.csv"
HEADINGS = (
    "method", "Last mAP", "of Joint", "paper: Last", "paper: of Joint", "CF1", "OF1", "Avg mAP", "FPR",
    "seeds", "network and training", "command",
)  # fmt: skip
# How an experiment's words about its training are said on the command line.
WORDS = {
    "head decayed by ": "--training.decay_head true --training.weight_decay ",
    "class order ": "--benchmark.class_order ",
    "memory of ": "--method.mem_size ",
    "memory relabelled above ": "--method.relabel_threshold ",
}
# Measured before CSC's network had all of its authors' activations: no command gives it again.
GONE = "graph without its activation"
PLACES = {"voc": "PASCAL VOC 2007", "coco": "MS-COCO 2014"}


def found() -> dict[Experiment, Measured]:
    """All seeds of each experiment together."""
    return combined(read(MEASURED))


def paper_rows() -> list[Row]:
    """The paper's tables."""
    with open(PAPER, newline="") as file:
        return list(csv.DictReader(file))


def command(line: Measured) -> str:
    """What measures a row again; empty for what no command gives."""
    e = line.experiment
    if GONE in e.training:
        return ""
    optimizer, *words = e.training.split(", ")
    profile, size = "small", ""
    if e.network.startswith("vectors"):
        profile = "features"
    elif " from " not in e.network:  # all of the network is trained
        _, pixels, epochs = e.network.split(", ")
        profile = "whole"
        size = f" --benchmark.image_size {pixels.split()[0]} --training.epochs {epochs.split()[0]}"
    options = [
        f"rebll table benchmarks/paper/{e.benchmark}.yaml --profile {profile}{size}",
        f"--methods {e.method} --scenarios {e.scenario}",
        f"--seeds {' '.join(map(str, line.seeds))}",
        "--training.optimizer {} --training.lr {}".format(*optimizer.split()),
    ]
    own = [f"--method.{e.parameter} {e.value}"] if e.parameter else []
    for word in words:
        [(said, option)] = [(k, v) for k, v in WORDS.items() if word.startswith(k)]
        (own if option.startswith("--method") else options).append(option + word.removeprefix(said))
    if own:
        own.insert(0, f"--method.name {e.method}")
    return " ".join([*options, *own, "--data-root DATA"])


def page() -> str:
    """All of it."""
    measured, printed = found(), paper_rows()
    parts = [
        "---\nhide: [toc]\n---",  # the tables want its place
        "# Results beside the paper's",
        "Every row of `benchmarks/paper/measured.csv`, drawn when this page was built. Percent; F1 and FPR "
        "at a threshold of 0.8; means over seeds. *Of Joint* is Last mAP divided by that of Joint with the "
        "same network. Only this figure can be compared with the paper's, which come from a larger network "
        "and longer training. The images are small (VOC: shorter side 160 px and half of the test images; "
        "COCO: 4000 and 1500 images of 128 px), so no number here is one of the paper's own. "
        "Click a heading to sort.",
        "![Last mAP as a share of Joint, measured and as the paper has it](figures/voc-b5c3.svg)",
    ]
    places = dict.fromkeys((e.benchmark, e.scenario) for e in measured)
    for benchmark, scenario in sorted(places, reverse=True):
        parts.append(f"## {PLACES[benchmark]}, {scenario}")
        lines = [
            row(line, measured, printed)
            for e, line in measured.items()
            if (e.benchmark, e.scenario) == (benchmark, scenario)
        ]
        lines.sort(key=lambda cells: -float(cells[1]))
        parts.append(table(HEADINGS, lines))
    parts += closed_form() + streams()
    return "\n\n".join(parts)


def row(line: Measured, measured: dict[Experiment, Measured], printed: Sequence[Row]) -> list[str]:
    """The cells of a row."""
    e, means = line.experiment, line.means
    joint = line if e.method == "joint" else ceiling(measured, e)
    share = f"{means['mAP'] / joint.means['mAP']:.3f}" if joint else ""
    theirs = [
        r
        for r in printed
        if (r["benchmark"], r["scenario"], r["method"]) == (e.benchmark, e.scenario, e.method)
        and r["mAP"] and not e.parameter
    ]  # fmt: skip
    said = (
        paper_share([r for r in printed if r["where"] == theirs[0]["where"]], theirs[0])
        if theirs
        else None
    )
    values = [
        f"{means[name]:.1f}" if name in means else "" for name in ("CF1", "OF1", "AvgmAP", "FPR")
    ]
    how = ", ".join(filter(None, (e.network, e.training, f"{e.parameter} {e.value}".strip())))
    label = describe(e.method).label
    last = theirs[0]["mAP"] if theirs else ""
    return [
        label, f"{means['mAP']:.1f}", share, last, f"{said:.3f}" if said else "", *values,
        " ".join(map(str, line.seeds)), how, command(line),
    ]  # fmt: skip


def closed_form() -> list[str]:
    """The rows of closed-form learning, by what the backbone is shown."""
    with open(CLOSED_FORM, newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["table"].endswith("val")]
    keys = ("mAP", "AvgmAP", "CF1@0.8", "OF1@0.8", "FPR@0.8", "calibration_error")
    lines = []
    for line in rows:
        values = [f"{100 * float(line[key]):.1f}" if line[key] else "" for key in keys]
        again = (
            "python benchmarks/closed_form/run.py --data DATA --cache FOLDER "
            f"--tables {line['table'].split()[0]}"
        )
        lines.append([line["table"], line["name"], *values, again])
    headings = (
        "features, scenario",
        "method",
        "Last mAP",
        "Avg mAP",
        "CF1",
        "OF1",
        "FPR",
        "ECE",
        "command",
    )
    return [
        "## Heads on frozen features",
        "Rows of `benchmarks/closed_form/results.csv`; [what each is](benchmarks/closed_form/notes.md).",
        table(headings, lines),
    ]


def streams() -> list[str]:
    """The closed form in four kinds of streams, on validation images."""
    with open(STREAMS, newline="") as file:
        headings, *rows = csv.reader(file)
    again = "python benchmarks/streams/closed_form.py --root DATA --features FOLDER --csv rows.csv"
    return [
        "## Kinds of streams",
        "The closed form on validation images, by [kind of stream](ideas/streams.md) and by what an unknown "
        "label counts as; rows of `benchmarks/streams/closed_form.csv`, explained in "
        "[Other kinds of streams](benchmarks/results/streams.md).",
        table([*headings, "command"], [[*row, again] for row in rows]),
    ]


def table(headings: Iterable[str], lines: Iterable[Sequence[str]]) -> str:
    """A table that sorts; its last column is a command that opens."""
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = []
    for *cells, last in lines:
        opens = f"<details><summary>show</summary><code>{escape(last)}</code></details>"
        shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body.append(f"<tr>{shown}<td>{opens if last else 'no longer possible'}</td></tr>")
    return (
        '<div class="wide"><table class="sortable"><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )
