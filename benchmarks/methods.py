"""One table of all methods: same images, network, memory budget and metrics, one process per run.

    python benchmarks/methods.py benchmarks/recipes/voc_small.yaml --benchmark.root DATA

Whatever this script does not know is passed on to ``rebll run``. Finished runs are read, not repeated,
and a stopped one goes on, so the same command also prints the table again.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from rebll_avalanche.experiment.folder import is_finished
from rebll_avalanche.experiment.methods import METHOD_OPTIONS
from rebll_avalanche.report.runs import Run, read_run

METRICS = ("mAP", "CF1@0.8", "OF1@0.8", "FPR@0.8", "CF1@0.5", "OF1@0.5", "FPR@0.5", "AvgmAP")


def row(runs: list[Run]) -> dict[str, Any]:
    """One method: means over seeds, metrics of the last experience in percent."""
    last = [run.last for run in runs]
    return {
        "method": runs[0].label,
        **{name: 100 * statistics.mean(step.metrics[name] for step in last) for name in METRICS},
        "minutes": statistics.mean(sum(step.seconds for step in run.steps) for run in runs) / 60,
        "peak GB": max(step.peak_memory_bytes or 0 for step in last) / 1e9,
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Markdown, highest Last mAP first."""
    print(f"| {' | '.join(rows[0])} |")
    print(f"|---|{'---:|' * (len(rows[0]) - 1)}")
    for entry in sorted(rows, key=lambda entry: -entry["mAP"]):
        label, *numbers = entry.values()
        print(f"| {label} | {' | '.join(f'{number:.1f}' for number in numbers)} |")


def main() -> None:
    """Run what is missing, then print everything that is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--methods", nargs="+", default=["all"], help="names, or all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/methods"))
    parser.add_argument("--table-only", action="store_true", help="read what is there, run nothing")
    options, settings = parser.parse_known_args()
    rows = []
    for name in list(METHOD_OPTIONS) if options.methods == ["all"] else options.methods:
        folders = [options.folder / f"{name}_seed{seed}" for seed in options.seeds]
        for seed, folder in zip(options.seeds, folders, strict=True):
            if not options.table_only and not is_finished(folder):
                command = [sys.executable, "-m", "rebll_avalanche.cli", "run", options.recipe]
                command += ["--method.name", name, "--seed", str(seed), "--folder", str(folder)]
                subprocess.run([*command, *settings], check=False)
        runs = [read_run(folder) for folder in folders if is_finished(folder)]
        if runs:
            rows.append(row(runs))
    if rows:
        print_table(rows)


if __name__ == "__main__":
    main()
