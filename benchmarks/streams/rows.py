"""One row per run of ``benchmarks/paper/streams.yaml`` and others: what each method keeps in each stream.

python benchmarks/streams/rows.py benchmarks/streams/methods.csv RUNS/*
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rebll_avalanche.report import read_runs
from rebll_avalanche.run_files import RESULTS

ABOUT = ("benchmark", "scenario", "mode", "learns", "method", "later_lr_scale", "seed")
METRICS = ("mAP", "AvgmAP", "CF1@0.8", "OF1@0.8", "FPR@0.8")


def learns(benchmark: dict[str, Any]) -> str:
    """Which part of the network is trained."""
    if not benchmark.get("features"):
        return "network"
    return f"from {until} on" if (until := benchmark.get("features_until")) else "head"


def rows_of(folders: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """What the finished runs among these folders measured."""
    runs, left_out = read_runs([folder for folder in folders if (folder / RESULTS).is_file()])
    for reason in left_out:
        print(f"left out: {reason}", file=sys.stderr)
    for run in runs:
        benchmark, last = run.config["benchmark"], run.steps[-1].metrics
        about = (benchmark["name"], benchmark["scenario"], benchmark["mode"], learns(benchmark))
        scale = f"{run.config['training']['later_lr_scale']:g}"
        values = (f"{100 * last[name]:.2f}" if name in last else "" for name in METRICS)
        yield (*about, run.config["method"]["name"], scale, str(run.config["seed"]), *values)


def main(table: Path, folders: Sequence[Path]) -> None:
    """Add the rows to the table; a run that is measured again replaces its row."""
    earlier = list(csv.reader(table.open(newline="")))[1:] if table.is_file() else []
    rows = {tuple(row[: len(ABOUT)]): row for row in (*earlier, *map(list, rows_of(folders)))}
    with table.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*ABOUT, *METRICS))
        writer.writerows(rows[key] for key in sorted(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
