"""Labels that are not objects: functions of yeast genes, as vectors, in a class-incremental stream.

    pip install river
    python benchmarks/genes.py

Yeast (Elisseeff and Weston, 2001) has 2417 genes, 103 measurements of each and 14 functional classes, 4.2
per gene; it comes with the package river. The measurements say little about most functions, so this shows how
much a method depends on good features. Two thirds of the genes are for training, a quarter of these for
choosing each method's learning rate (L3A's penalty) on B5-C3; the rest is the test set. Prints a table of
means over seeds and writes ``results/genes.csv``, a row per run.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche import build_model, multilabel_benchmark, read_metrics
from rebll_avalanche.benchmarks import MultiLabelBenchmark
from rebll_avalanche.strategies.registry import METHODS

SCENARIOS = ("B5-C3", "B4-C2")
# What is chosen for each method; heads that are solved have no learning rate.
RATES = [{"lr": rate} for rate in (1e-3, 3e-3, 1e-2)]
CHOICES: dict[str, list[dict[str, float]]] = {
    "closed-form": [{}],
    "l3a": [{"gamma": gamma} for gamma in (1.0, 10.0, 100.0, 1000.0)],
}
MEMORY = 28  # two genes per class
# Methods and their network.
COMPARED = {
    "joint": {"hidden_layer": 256},
    "fine-tuning": {"hidden_layer": 256},
    "lwf": {"hidden_layer": 256},
    "er": {"hidden_layer": 256},
    "rebll": {"hidden_layer": 256},
    "rebll-best": {"hidden_layer": 256},
    "closed-form": {"power": 1.0, "random_features": 1030},
    "l3a": {"per_feature": 10},
}
MEASURES = ("mAP", "AvgmAP", "CF1@0.5", "OF1@0.5", "FPR@0.5")

Split = tuple[Tensor, Tensor]


def genes() -> Split:
    """Measurements and functions of all genes."""
    from river.datasets import Yeast

    rows = list(Yeast())
    measured = torch.tensor([list(x.values()) for x, _ in rows], dtype=torch.float32)
    functions = torch.tensor([[float(v) for v in y.values()] for _, y in rows])
    return measured, functions


def split(data: Split, share: float, seed: int) -> tuple[Split, Split]:
    """A random share of the rows, and the others."""
    order = torch.randperm(len(data[0]), generator=torch.Generator().manual_seed(seed))
    cut = round(share * len(order))
    first, second = order[:cut], order[cut:]
    return (data[0][first], data[1][first]), (data[0][second], data[1][second])


def scaled(train: Split, test: Split) -> tuple[Split, Split]:
    """Standardise both by mean and deviation of the training rows."""
    mean, spread = train[0].mean(dim=0), train[0].std(dim=0)
    return ((train[0] - mean) / spread, train[1]), ((test[0] - mean) / spread, test[1])


def learn(
    name: str, benchmark: MultiLabelBenchmark, chosen: dict[str, float], *, seed: int, epochs: int
) -> dict[str, float]:
    """Metrics after the last experience."""
    torch.manual_seed(seed)
    method = METHODS[name]
    model = build_model("vector", head=method.head, in_features=103, **COMPARED[name])
    options: dict[str, Any] = {key: value for key, value in chosen.items() if key != "lr"}
    if method.uses_memory:
        options["mem_size"] = MEMORY
    strategy = method.build(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=chosen.get("lr", 0.0), weight_decay=0.0),
        train_mb_size=64,
        train_epochs=epochs if "lr" in chosen else 1,
        eval_mb_size=1024,
        **options,
    )
    found: dict[str, float] = {}
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train)
        found = read_metrics(strategy.eval([test]))
    return found


def stream(name: str, scenario: str, train: Split, test: Split) -> MultiLabelBenchmark:
    """The stream of a scenario; for joint training, all classes in one experience."""
    joint = METHODS[name].joint
    return multilabel_benchmark(
        *scaled(train, test), f"B0-C{train[1].shape[1]}" if joint else scenario
    )


def rows(seeds: Iterable[int], epochs: int) -> Iterator[dict[str, Any]]:
    """One for each method, scenario and seed, with settings chosen on held-out training rows."""
    train, test = split(genes(), 2 / 3, seed=0)
    fitted, held_out = split(train, 3 / 4, seed=1)
    for name in COMPARED:
        choices, tried = CHOICES.get(name, RATES), stream(name, SCENARIOS[0], fitted, held_out)
        reached = [learn(name, tried, one, seed=0, epochs=epochs)["mAP"] for one in choices]
        chosen = choices[reached.index(max(reached))]
        words = ", ".join(f"{key} {value:g}" for key, value in chosen.items())
        for scenario, seed in product(SCENARIOS, seeds):
            benchmark = stream(name, scenario, train, test)
            found = learn(name, benchmark, chosen, seed=seed, epochs=epochs)
            measured = {key: round(100 * found[key], 2) for key in MEASURES}
            yield {"scenario": scenario, "method": name, "seed": seed, "chosen": words} | measured


def table(found: list[dict[str, Any]]) -> str:
    """Means over seeds, in Markdown."""
    lines = [f"| {' | '.join(('scenario', 'method', *MEASURES))} |", "|---|---|" + "---:|" * 5]
    for scenario, name in sorted({(row["scenario"], row["method"]) for row in found}, key=_rank):
        of_method = [r for r in found if (r["scenario"], r["method"]) == (scenario, name)]
        cells = [_mean([row[key] for row in of_method]) for key in MEASURES]
        lines.append(f"| {' | '.join((scenario, METHODS[name].label, *cells))} |")
    return "\n".join(lines)


def _rank(place: tuple[str, str]) -> tuple[int, int]:
    return SCENARIOS.index(place[0]), list(COMPARED).index(place[1])


def _mean(values: list[float]) -> str:
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def main() -> None:
    """Measure, write rows, print means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(__file__).parent / "results" / "genes.csv"
    )
    arguments = parser.parse_args()
    found: list[dict[str, Any]] = []
    with open(arguments.output, "w", newline="") as file:
        for row in rows(arguments.seeds, arguments.epochs):
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            if not found:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            found.append(row)
    print(table(found))


if __name__ == "__main__":
    main()
