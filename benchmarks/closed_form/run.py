"""The closed-form tables on real images, from one command.

    python benchmarks/closed_form/run.py --data ../shared/data --cache FOLDER [--tables voc-lite0,...]

Every row is measured once and kept in ``results.json``; what is there is not measured again.
``RESULTS.md`` and ``reliability.png`` are drawn from it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from features import Split, load_split
from report import draw_reliability, write_results
from rows import Build, by_gradient, closed_form, l3a, measure, stream

HERE = Path(__file__).parent
LITE0, LITE2 = "tf_efficientnet_lite0", "tf_efficientnet_lite2"
SCENARIOS = {"voc": ("B5-C3", "B4-C2"), "coco": ("B20-C4", "B0-C5")}
MEMORY = {"voc": 40, "coco": 400}
# Data, backbones, and whether the rivals are measured too.
TABLES = {
    "voc-lite0": ("voc", [(LITE0, 224)], True),
    "voc-lite2": ("voc", [(LITE2, 260)], False),
    "voc-both": ("voc", [(LITE0, 224), (LITE2, 260)], False),
    "voc-lite0-160": ("voc", [(LITE0, 160)], False),
    "coco-lite0": ("coco", [(LITE0, 224)], True),
    "coco-lite2": ("coco", [(LITE2, 260)], False),
    "coco-lite0-128": ("coco", [(LITE0, 128)], True),
}
# The first two are measured on every table.
CLOSED_FORMS: dict[str, dict[str, Any]] = {
    "Closed form": {},
    "Closed form, Gaussian calibration": {"calibration": "gaussian"},
    "Closed form, negative, repeats counted again": {"recognise_repeats": False},
    "Closed form, hard pseudo-labels": {"unknown": "hard"},
    "Closed form, soft pseudo-labels": {"unknown": "soft"},
    "Closed form, prior": {"unknown": "prior"},
}
RATES = (3e-3, 1e-2)
# By name in the registry; those with a memory get MEMORY images.
GRADIENT = ("rebll", "akd", "lwf", "er")


class Results:
    """Rows by table, scenario and name, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = json.loads(path.read_text()) if path.is_file() else {}

    def add(
        self, key: str, name: str, build: Build, train: Split, test: Split, *where: str
    ) -> None:
        """Measure a row, unless it is there."""
        if name in self.rows.get(key, {}):
            return
        row = measure(name, build, stream(train, test, where[0]))
        self.rows.setdefault(key, {})[name] = asdict(row) | {"average": row.average}
        self.path.write_text(json.dumps(self.rows, indent=1) + "\n")
        print(key, name, f"{100 * row.last['mAP']:.1f} | {100 * row.average:.1f}", flush=True)

    def chosen_rate(self, key: str, method: str, train: Split, val: Split, *where: str) -> float:
        """The learning rate with the best Last mAP on validation images."""
        memory = MEMORY[key.split("-")[0]]
        for rate in RATES:
            build = by_gradient(method, lr=rate, mem_size=memory)
            self.add(f"{key} val", f"{method} {rate:g}", build, train, val, where[0])
        tried = self.rows[f"{key} val"]
        return max(RATES, key=lambda rate: tried[f"{method} {rate:g}"]["last"]["mAP"])


def run_table(name: str, data_root: Path, cache: Path, results: Results, *, rivals: bool) -> None:
    """All scenarios of one set of features: the closed form first, then what it is compared with."""
    data, backbones, with_rivals = TABLES[name]
    load = {
        split: load_split(data, data_root, split, backbones, cache)
        for split in ("train", "val", "trainval", "test")
    }
    train, test = load["trainval"], load["test"]
    everything = f"B{train.labels.shape[1]}-C0"
    results.add(f"{name} joint", "Joint, ridge", closed_form(), train, test, everything)
    for scenario in SCENARIOS[data]:
        for row, options in CLOSED_FORMS.items():
            if with_rivals or row in list(CLOSED_FORMS)[:2]:
                build = closed_form(**options)
                results.add(f"{name} {scenario}", row, build, train, test, scenario)
    if not (with_rivals and rivals):
        return
    tuned_on = SCENARIOS[data][0]
    for scenario in SCENARIOS[data]:
        key = f"{name} {scenario}"
        results.add(key, "L3A (4096 random features)", l3a(4096), train, test, scenario)
        for method in GRADIENT:
            rate = results.chosen_rate(
                f"{name} {tuned_on}", method, load["train"], load["val"], tuned_on
            )
            build = by_gradient(method, lr=rate, mem_size=MEMORY[data])
            results.add(key, method, build, train, test, scenario)
    rate = results.chosen_rate(f"{name} joint", "joint", load["train"], load["val"], everything)
    build = by_gradient("joint", lr=rate)
    results.add(f"{name} joint", "Joint, logistic by gradient", build, train, test, everything)


def main() -> None:
    """Parse arguments, measure what is missing, write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--no-rivals", action="store_true", help="only closed-form rows")
    arguments = parser.parse_args()
    results = Results(HERE / "results.json")
    for name in arguments.tables.split(","):
        rivals = not arguments.no_rivals
        run_table(name, arguments.data, arguments.cache, results, rivals=rivals)
    write_results(results.rows, HERE / "RESULTS.md")
    draw_reliability(results.rows, HERE / "reliability.png")


if __name__ == "__main__":
    main()
