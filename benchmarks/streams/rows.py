"""One row per run of ``benchmarks/paper/streams.yaml`` and others: what each method keeps in each stream.

python benchmarks/streams/rows.py RUNS/* > benchmarks/streams/methods.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from rebll_avalanche.report import read_runs
from rebll_avalanche.run_files import RESULTS

METRICS = ("mAP", "AvgmAP", "CF1@0.8", "OF1@0.8", "FPR@0.8")


def learns(benchmark: dict[str, Any]) -> str:
    """Which part of the network is trained."""
    if not benchmark.get("features"):
        return "network"
    return f"from {until} on" if (until := benchmark.get("features_until")) else "head"


def main(folders: list[str]) -> None:
    """Write the rows to standard output."""
    finished = [Path(folder) for folder in folders if (Path(folder) / RESULTS).is_file()]
    runs, left_out = read_runs(finished)
    for reason in left_out:
        print(f"left out: {reason}", file=sys.stderr)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(
        ["benchmark", "scenario", "mode", "learns", "method", "later_lr_scale", "seed", *METRICS]
    )
    rows = []
    for run in runs:
        benchmark, last = run.config["benchmark"], run.steps[-1].metrics
        about = (benchmark["name"], benchmark["scenario"], benchmark["mode"], learns(benchmark))
        scale = f"{run.config['training']['later_lr_scale']:g}"
        values = [f"{100 * last[name]:.2f}" if name in last else "" for name in METRICS]
        rows.append((*about, run.config["method"]["name"], scale, run.config["seed"], *values))
    writer.writerows(sorted(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
