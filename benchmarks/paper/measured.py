"""Results of runs, kept in ``measured.csv`` when their folders are gone.

A run folder is large; a line here holds what a table needs of it, or the means over several seeds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from rebll_avalanche.report.runs import Run

# Parameters of a method that the words about its training name.
IN_WORDS = ("name", "mem_size", "relabel_threshold")
METRICS = {
    "mAP": "mAP",
    "CF1": "CF1@0.8",
    "OF1": "OF1@0.8",
    "AvgmAP": "AvgmAP",
    "FPR": "FPR@0.8",
}
# Images that the recipes of the paper remember.
MEMORY = {"voc": 40, "coco": 400}
# Above which probability memory is relabelled. Runs from when the library's default was 0.5 say so in words.
RELABELLED_ABOVE = {"rebll-best": 0.5}
USUALLY_ABOVE = 0.8


@dataclass(frozen=True)
class Experiment:
    """The settings that runs must share to be seeds of one experiment.

    Attributes:
        parameter: The parameter of the method that differs from its default; empty if none does.
        value: The value of that parameter.
        network: Network and input, in words.
        training: Training settings, in words; the optimizer and its learning rate first.
    """

    benchmark: str
    scenario: str
    method: str
    parameter: str
    value: str
    network: str
    training: str

    @property
    def optimizer(self) -> str:
        """The words without learning rate, memory and graph, of which methods have their own, or none.

        "graph without its activation" marks what was measured before CSC's network had all of its
        authors' activations.
        """
        first, *others = self.training.split(", ")
        kept = [words for words in others if not words.startswith(("memory", "graph"))]
        return ", ".join([first.split()[0], *kept])


@dataclass(frozen=True)
class Measured:
    """Means over seeds after the last experience, in percent."""

    experiment: Experiment
    seeds: tuple[int, ...]
    means: dict[str, float]


def network(run: Run) -> str:
    """Network and input of a run."""
    benchmark, epochs = run.config["benchmark"], run.config["training"]["epochs"]
    name = run.config["model"]["backbone"]
    if features := benchmark.get("features"):
        until = benchmark.get("features_until")
        name = f"{features} from {until} on" if until else f"vectors of {features}"
    elif until := run.config["model"].get("freeze_until"):
        name = f"{name}, learning after {until}"
    looks = ", own shape" if benchmark.get("features_aspect") == "kept" else ""
    looks += ", windows" if benchmark.get("features_windows") else ""
    return f"{name}, {benchmark['image_size'] or 224} px{looks}, {epochs} epochs"


def training(run: Run) -> str:
    """Training settings of a run: those that tables vary, and those that differ from the recipes."""
    trained, benchmark = run.config["training"], run.config["benchmark"]
    words = [f"{trained['optimizer']} {trained['lr']:g}"]
    if trained["decay_head"] and trained["weight_decay"]:
        words.append(f"head decayed by {trained['weight_decay']:g}")
    if trained["schedule"] != "onecycle":
        words.append(f"{trained['schedule']} rate")
    if run.config["model"].get("bn_mode") == "train" and benchmark.get("features_until"):
        words.append("batch norm learning")
    if (order := benchmark["class_order"]) != "alphabetical":
        words.append(f"class order {order}")
    memory, usual = run.config["method"].get("mem_size"), MEMORY.get(benchmark["name"])
    if memory is not None and memory != usual:
        words.append(f"memory of {memory}")
    usual_threshold = RELABELLED_ABOVE.get(run.method, USUALLY_ABOVE)
    if (threshold := relabelled_above(run)) not in (None, usual_threshold):
        words.append(f"memory relabelled above {threshold:g}")
    return ", ".join(words)


def relabelled_above(run: Run) -> float | None:
    """The threshold that a run relabelled its memory with; None if it did not, or did not say."""
    parameters = run.config.get("method_as_run", {}).get("parameters", {})
    return parameters.get("relabel_threshold") if parameters.get("relabel", True) else None


def from_run(run: Run) -> Measured | None:
    """A line for a run on test images with at most one changed parameter; None for other runs."""
    method = {key: value for key, value in run.config["method"].items() if value is not None}
    changed = {key: value for key, value in method.items() if key not in IN_WORDS}
    if changed.get("preset") == "paper":
        del changed["preset"]
    tested = run.config["evaluation"]["stream"] == "test"
    if len(changed) > 1 or not tested or run.config.get("extensions"):
        return None
    parameter, value = next(iter(changed.items()), ("", ""))
    benchmark = run.config["benchmark"]
    experiment = Experiment(
        benchmark["name"],
        benchmark["scenario"],
        run.method,
        parameter,
        str(value),
        network(run),
        training(run),
    )
    found = run.last.metrics
    if not set(METRICS.values()) <= found.keys():
        return None
    means = {name: 100 * found[key] for name, key in METRICS.items()}
    return Measured(experiment, (run.seed,), means)


def read(path: Path) -> list[Measured]:
    """The lines of a file; none if it does not exist."""
    if not path.is_file():
        return []
    names = [field.name for field in fields(Experiment)]
    with open(path, newline="") as file:
        return [
            Measured(
                Experiment(*(line[name] for name in names)),
                tuple(map(int, line["seeds"].split())),
                {name: float(line[name]) for name in METRICS if line[name]},
            )
            for line in csv.DictReader(file)
        ]


def write(path: Path, measured: Iterable[Measured]) -> None:
    """All lines, in an order that does not depend on when they were measured."""
    names = [field.name for field in fields(Experiment)]
    with open(path, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*names, "seeds", *METRICS])
        for line in sorted(measured, key=lambda m: (*vars(m.experiment).values(), m.seeds)):
            means = [f"{line.means[n]:.3f}" if n in line.means else "" for n in METRICS]
            seeds = " ".join(map(str, line.seeds))
            table.writerow([*vars(line.experiment).values(), seeds, *means])


def updated(known: Iterable[Measured], new: Sequence[Measured]) -> tuple[list[Measured], int]:
    """Known lines with new ones, each of a single seed, and how many of these could not be used.

    What was measured again replaces what was there. A mean of several seeds cannot be taken apart, so it
    stays until all of its seeds have been measured again.
    """
    again = {(line.experiment, seed) for line in new for seed in line.seeds}
    kept = [
        line for line in known if not all((line.experiment, seed) in again for seed in line.seeds)
    ]
    taken = {(line.experiment, seed) for line in kept for seed in line.seeds}
    fresh = [line for line in new if (line.experiment, line.seeds[0]) not in taken]
    return kept + fresh, len(new) - len(fresh)


def combined(measured: Iterable[Measured]) -> dict[Experiment, Measured]:
    """All seeds of an experiment together."""
    found: dict[Experiment, list[Measured]] = {}
    for line in measured:
        found.setdefault(line.experiment, []).append(line)
    return {experiment: _mean(lines) for experiment, lines in found.items()}


def _mean(lines: Sequence[Measured]) -> Measured:
    seeds = tuple(sorted(seed for line in lines for seed in line.seeds))
    common = [name for name in METRICS if all(name in line.means for line in lines)]
    means = {n: sum(len(m.seeds) * m.means[n] for m in lines) / len(seeds) for n in common}
    return Measured(lines[0].experiment, seeds, means)
