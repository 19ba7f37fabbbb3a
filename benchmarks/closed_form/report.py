"""The page and the figure of the closed-form tables, from ``results.csv``, in ``outputs/closed_form``.

python benchmarks/closed_form/report.py
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from kept import Rows, read_rows

from rebll_avalanche.strategies import METHODS

TITLES = {
    "voc-lite0": "VOC 2007, EfficientNet-Lite0 at 224 px",
    "voc-lite2": "VOC 2007, EfficientNet-Lite2 at 260 px",
    "voc-both": "VOC 2007, Lite0 at 224 px and Lite2 at 260 px side by side",
    "voc-three": "VOC 2007, Lite0 at 224 px, Lite1 at 240 px and Lite2 at 260 px side by side",
    "voc-three-windows": "VOC 2007 in its own shape and in windows, Lite0 at 288, Lite1 at 304, Lite2 at 384",
    "voc-lite2-windows": "VOC 2007 in its own shape and in windows, Lite2 at 384 px",
    "voc-lite0-windows": "VOC 2007 in its own shape and in windows, Lite0 at 288 px",
    "voc-three-aspect": "VOC 2007 in its own shape, Lite0 at 288, Lite1 at 304 and Lite2 at 384 px",
    "voc-lite2-aspect": "VOC 2007 in its own shape, Lite2 at 384 px",
    "voc-lite0-aspect": "VOC 2007 in its own shape, Lite0 at 288 px",
    "voc-lite0-160": "VOC 2007, EfficientNet-Lite0 at 160 px",
    "coco-lite0": "COCO 2014, EfficientNet-Lite0 at 224 px",
    "coco-lite2": "COCO 2014, EfficientNet-Lite2 at 260 px",
    "coco-lite0-windows": "COCO 2014 in its own shape and in windows, Lite0 at 288 px",
    "coco-lite0-128": "COCO 2014, EfficientNet-Lite0 at 128 px",
}
COLUMNS = (
    "Last mAP", "Avg mAP", "CF1 / OF1 / FPR at 0.8", "at 0.5", "ECE", "of Joint", "s / exp.", "state",
)  # fmt: skip
F1 = ("CF1", "OF1")
HERE = Path(__file__).parent
KEPT = HERE / "results.csv"


def write_pages(rows: Rows, folder: Path = Path("outputs/closed_form")) -> None:
    """``RESULTS.md`` and ``reliability.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "RESULTS.md").write_text(page(rows))
    (folder / "reliability.png").write_bytes(reliability(rows))
    print(f"{folder / 'RESULTS.md'}, {folder / 'reliability.png'}")


def page(rows: Rows) -> str:
    """The notes in ``notes.md``, and all tables below them."""
    parts = [(HERE / "notes.md").read_text().rstrip()]
    parts.append("![Reliability diagrams: share found over probability](reliability.png)")
    for name, title in TITLES.items():
        tables = {key: rows[key] for key in rows if key.split(" ")[0] == name}
        if not tables:
            continue
        joint = tables.get(f"{name} joint", {}).get("Joint, ridge")
        ceiling = joint["last"]["mAP"] if joint else None
        parts.append(f"## {title}")
        for key, table in tables.items():
            if key.endswith(" val"):
                continue
            parts.append(f"### {key.split(' ')[1].replace('joint', 'Joint')}")
            lines = ["| method | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
            lines += [_line(label, seeds, ceiling) for label, seeds in _by_seeds(table).items()]
            parts.append("\n".join(lines))
        parts += _validation(tables)
    return "\n\n".join(parts) + "\n"


def _by_seeds(table: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    rows = defaultdict(list)
    for label, row in table.items():
        rows[re.sub(r", seed \d+$", "", label)].append(row)
    return rows


def _line(label: str, seeds: list[dict[str, Any]], ceiling: float | None) -> str:
    def at(threshold: str) -> list[str]:
        f1 = [_mean([row["last"][f"{name}@{threshold}"] for row in seeds]) for name in F1]
        return [*f1, f"{100 * mean(row['last'][f'FPR@{threshold}'] for row in seeds):.2f}"]

    last = [row["last"]["mAP"] for row in seeds]
    state = seeds[0]["state_bytes"]
    cells = [
        METHODS[label].label if label in METHODS else label,
        _mean(last, spread=True),
        _mean([row["average"] for row in seeds], spread=True),
        " / ".join(at("0.8")),
        " / ".join(at("0.5")),
        f"{100 * mean(row['calibration_error'] for row in seeds):.2f}",
        f"{mean(last) / ceiling:.3f}" if ceiling else "",
        f"{mean(row['seconds_per_experience'] for row in seeds):.1f}",
        f"{state / 1e6:.1f} MB" if state else "",
    ]
    if label == "l3a":
        cells[0] += f"; at its own 0.525: {' / '.join(at('0.525'))}"
    return "| " + " | ".join(cells) + " |"


def _mean(fractions: list[float], *, spread: bool = False) -> str:
    shown = f"{100 * mean(fractions):.1f}"
    return f"{shown} ± {100 * stdev(fractions):.1f}" if spread and len(fractions) > 1 else shown


def _validation(tables: Rows) -> list[str]:
    lines = []
    for key, table in tables.items():
        if key.endswith(" val"):
            tried = (f"{label}: {100 * row['last']['mAP']:.1f}" for label, row in table.items())
            lines.append(
                f"Learning rates tried on validation images, Last mAP: {'; '.join(tried)}."
            )
    return lines


def reliability(rows: Rows) -> bytes:
    """A PNG of probabilities against the share found, for the closed form and for rows that train."""
    from io import BytesIO

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = (
        "Closed form",
        "Closed form, Gaussian calibration",
        "rebll",
        "Joint, logistic by gradient",
    )
    keys = [key for key in rows if key.endswith((" B5-C3", " B20-C4"))]
    lines = -(-len(keys) // 4)
    figure, panels = pyplot.subplots(lines, 4, figsize=(14.4, 3.6 * lines), squeeze=False)
    for panel in panels.flat[len(keys) :]:
        panel.set_axis_off()
    for key, panel in zip(keys, panels.flat, strict=False):
        name = key.split(" ")[0]
        table = rows[key] | rows.get(f"{name} joint", {})
        panel.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for label in shown:
            if label in table:
                said, found, _ = zip(*table[label]["reliability"], strict=True)
                error = 100 * table[label]["calibration_error"]
                panel.plot(said, found, marker="o", markersize=3, label=f"{label} ({error:.1f})")
        panel.set(title=key, xlabel="probability said", ylabel="share found")
        panel.legend(fontsize=6, title="ECE in percent", title_fontsize=6)
    figure.tight_layout()
    drawn = BytesIO()
    figure.savefig(drawn, dpi=110)
    pyplot.close(figure)
    return drawn.getvalue()


if __name__ == "__main__":
    write_pages(read_rows(KEPT))
