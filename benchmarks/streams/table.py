"""Draws the tables of ``results/streams.md`` from rows: means over seeds, with their spread.

python benchmarks/streams/table.py < benchmarks/streams/methods.csv
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean, stdev

from rebll_avalanche.strategies.registry import METHODS

KINDS = ("overlap", "disjoint", "once", "repetition")

Row = dict[str, str]


def main(rows: Iterable[Row]) -> None:
    """Print one table for each benchmark, scenario and part of the network that learns."""
    tables: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        tables[row["benchmark"], row["scenario"], row["learns"]].append(row)
    for about, found in sorted(tables.items()):
        print(f"{' '.join(about)}: Last | Avg mAP, CF1 at 0.8 (seeds)\n")
        print(f"| method | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
        names = {(row["method"], row["later_lr_scale"]) for row in found}
        for name, scale in sorted(names):
            label = METHODS[name].label + (f", later rate x {scale}" if scale != "1" else "")
            mine = [r for r in found if (r["method"], r["later_lr_scale"]) == (name, scale)]
            cells = [cell([row for row in mine if row["mode"] == kind]) for kind in KINDS]
            print(f"| {label} | {' | '.join(cells)} |")
        print()


def cell(rows: list[Row]) -> str:
    """Means over seeds, the standard deviation of Last mAP, and the number of seeds."""
    if not rows:
        return ""
    last, average, f1 = (
        [float(row[name]) for row in rows] for name in ("mAP", "AvgmAP", "CF1@0.8")
    )
    spread = f" ± {stdev(last):.1f}" if len(last) > 1 else ""
    return f"{fmean(last):.1f}{spread} \\| {fmean(average):.1f}, {fmean(f1):.1f} ({len(last)})"


if __name__ == "__main__":
    main(csv.DictReader(sys.stdin))
