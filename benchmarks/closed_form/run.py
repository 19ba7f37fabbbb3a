"""The closed-form tables on real images, from one command.

    python benchmarks/closed_form/run.py --data DATA --cache FOLDER [--tables voc-lite0,...]

Every row is measured once and kept in ``results.csv``; existing rows are not measured again.
Page and figure are drawn from it in ``outputs/closed_form``, also by ``report.py`` alone.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from features import Split, View, load_split
from kept import read_rows, write_rows
from report import KEPT, write_pages
from rows import Build, by_gradient, closed_form, l3a, measure, stream

LITE0, LITE1, LITE2 = (f"tf_efficientnet_lite{size}" for size in range(3))
SCENARIOS = {"voc": ("B5-C3", "B4-C2"), "coco": ("B20-C4", "B0-C5")}
MEMORY = {"voc": 40, "coco": 400}
# Data set, views of the images, and whether the rivals are measured too.
TABLES = {
    "voc-lite0": ("voc", [View(LITE0, 224)], True),
    "voc-lite2": ("voc", [View(LITE2, 260)], False),
    "voc-both": ("voc", [View(LITE0, 224), View(LITE2, 260)], False),
    "voc-three": ("voc", [View(LITE0, 224), View(LITE1, 240), View(LITE2, 260)], False),
    "voc-lite0-aspect": ("voc", [View(LITE0, 288, True)], False),
    "voc-lite2-aspect": ("voc", [View(LITE2, 384, True)], False),
    "voc-three-aspect": (
        "voc",
        [View(LITE0, 288, True), View(LITE1, 304, True), View(LITE2, 384, True)],
        False,
    ),
    "voc-lite0-windows": ("voc", [View(LITE0, 288, True, True)], False),
    "voc-lite2-windows": ("voc", [View(LITE2, 384, True, True)], False),
    "voc-three-windows": (
        "voc",
        [
            View(LITE0, 288, True, True),
            View(LITE1, 304, True, True),
            View(LITE2, 384, True, True),
        ],
        False,
    ),
    "voc-lite0-160": ("voc", [View(LITE0, 160)], False),
    "coco-lite0": ("coco", [View(LITE0, 224)], True),
    "coco-lite2": ("coco", [View(LITE2, 260)], False),
    "coco-lite0-windows": ("coco", [View(LITE0, 288, True, True)], False),
    "coco-lite0-128": ("coco", [View(LITE0, 128)], True),
}
# The first two are measured on every table, the others on the first.
CLOSED_FORMS: dict[str, dict[str, Any]] = {
    "Closed form": {},
    "Closed form, Gaussian calibration": {"calibration": "gaussian"},
    "Closed form, negative, repeats counted again": {"keep": "sums", "unknown": "negative"},
    "Closed form, hard pseudo-labels": {"unknown": "hard"},
    "Closed form, soft pseudo-labels": {"unknown": "soft"},
    "Closed form, prior": {"unknown": "prior"},
}
# Learning rates are chosen on these features and splits, for all tables.
VOC_LITE0, CUT = [View(LITE0, 224)], ("train", "val")
RATES = (3e-3, 1e-2)
JOINT_RATES = (1e-3, 3e-3)
# By name in the registry; those with a memory get MEMORY images.
GRADIENT = ("rebll", "akd", "rebll-closed-form", "akd-closed-form", "lwf", "er", "der++")


class Results:
    """Rows by table, scenario and name, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = read_rows(path)

    def add(
        self, key: str, name: str, build: Build, train: Split, test: Split, seeds: int = 1
    ) -> None:
        """Measure a row on the scenario named at the end of the key, for every missing seed."""
        scenario = key.removesuffix(" val").split(" ")[-1]
        if scenario == "joint":
            scenario = f"B{train.labels.shape[1]}-C0"
        for seed in range(seeds):
            row_name = f"{name}, seed {seed}" if seed else name
            if row_name in self.rows.get(key, {}):
                continue
            row = measure(row_name, build, stream(train, test, scenario), seed)
            self.rows.setdefault(key, {})[row_name] = asdict(row) | {"average": row.average}
            write_rows(self.path, self.rows)
            score = f"{100 * row.last['mAP']:.1f} | {100 * row.average:.1f}"
            print(key, row_name, score, flush=True)

    def chosen_rate(self, key: str, method: str, train: Split, val: Split) -> float:
        """The learning rate with the best Last mAP on validation images."""
        rates = JOINT_RATES if method == "joint" else RATES
        for rate in rates:
            build = by_gradient(method, lr=rate, mem_size=MEMORY[key.split("-")[0]])
            self.add(f"{key} val", f"{method} {rate:g}", build, train, val)
        tried = self.rows[f"{key} val"]
        return max(rates, key=lambda rate: tried[f"{method} {rate:g}"]["last"]["mAP"])


def run_table(
    name: str,
    data_root: Path,
    cache: Path,
    results: Results,
    *,
    rivals: bool,
    methods: list[str],
    seeds: int,
) -> None:
    """Measure all scenarios on one set of features: the closed form first, then its rivals."""
    data, views, with_rivals = TABLES[name]
    train, test = (
        load_split(data, data_root, split, views, cache) for split in ("trainval", "test")
    )
    results.add(f"{name} joint", "Joint, ridge", closed_form(), train, test)
    for scenario in SCENARIOS[data]:
        for row, options in CLOSED_FORMS.items():
            if name == "voc-lite0" or row in list(CLOSED_FORMS)[:2]:
                results.add(f"{name} {scenario}", row, closed_form(**options), train, test)
    if not (with_rivals and rivals):
        return
    # COCO takes over what was chosen on VOC.
    tuned = {split: load_split("voc", data_root, split, VOC_LITE0, cache) for split in CUT}
    for scenario in SCENARIOS[data]:
        key = f"{name} {scenario}"
        results.add(key, "l3a", l3a(), train, test, seeds)
        for method in methods:
            rate = results.chosen_rate("voc-lite0 B5-C3", method, tuned["train"], tuned["val"])
            build = by_gradient(method, lr=rate, mem_size=MEMORY[data])
            results.add(key, method, build, train, test, seeds)
    rate = results.chosen_rate("voc-lite0 joint", "joint", tuned["train"], tuned["val"])
    build = by_gradient("joint", lr=rate)
    results.add(f"{name} joint", "Joint, logistic by gradient", build, train, test, seeds)


def main() -> None:
    """Parse arguments, measure what is missing, write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--no-rivals", action="store_true", help="only closed-form rows")
    parser.add_argument("--methods", default=",".join(GRADIENT), help="rivals to measure")
    parser.add_argument(
        "--seeds", type=int, default=3, help="number of seeds for rows with randomness"
    )
    arguments = parser.parse_args()
    results = Results(KEPT)
    for name in arguments.tables.split(","):
        run_table(
            name,
            arguments.data,
            arguments.cache,
            results,
            rivals=not arguments.no_rivals,
            methods=arguments.methods.split(","),
            seeds=arguments.seeds,
        )
    write_pages(results.rows)


if __name__ == "__main__":
    main()
