"""Measured rows in a file with one row per line: ``results.csv``.

Lists share one cell: the mAP after each experience, and for every bin of scores the mean score, the share of
present labels and the number of labels.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

# By table and scenario, then by the row's name.
Rows = dict[str, dict[str, dict[str, Any]]]
FIRST = ("table", "name", "average", "calibration_error", "seconds_per_experience", "state_bytes")
LISTS = ("maps", "reliability")


def read_rows(path: Path) -> Rows:
    """Rows measured before; none if the file does not exist."""
    rows: Rows = {}
    if not path.is_file():
        return rows
    with path.open(newline="", encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            key, name = line.pop("table"), line.pop("name")
            bins = (triple.split("/") for triple in line.pop("reliability").split())
            row: dict[str, Any] = {
                "maps": [float(value) for value in line.pop("maps").split()],
                "reliability": [(float(said), float(found), int(n)) for said, found, n in bins],
                "state_bytes": int(line.pop("state_bytes")),
            }
            row |= {column: float(line.pop(column)) for column in FIRST[2:5]}
            row["last"] = {metric: float(value) for metric, value in line.items() if value}
            rows.setdefault(key, {})[name] = row
    return rows


def write_rows(path: Path, rows: Rows) -> None:
    """Write all rows, numbers to nine digits."""
    flat = [(key, name, row) for key, table in rows.items() for name, row in table.items()]
    metrics = list(dict.fromkeys(metric for _, _, row in flat for metric in row["last"]))
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow([*FIRST, *metrics, *LISTS])
        for key, name, row in flat:
            numbers = [f"{row[column]:.9g}" for column in FIRST[2:5]]
            last = [
                f"{row['last'][metric]:.9g}" if metric in row["last"] else "" for metric in metrics
            ]
            maps = " ".join(f"{value:.9g}" for value in row["maps"])
            bins = " ".join(f"{said:.4g}/{found:.4g}/{n}" for said, found, n in row["reliability"])
            writer.writerow([key, name, *numbers, row["state_bytes"], *last, maps, bins])
