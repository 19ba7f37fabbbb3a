"""The page and the figure of the closed-form tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TITLES = {
    "voc-lite0": "VOC 2007, EfficientNet-Lite0 at 224 px",
    "voc-lite2": "VOC 2007, EfficientNet-Lite2 at 260 px",
    "voc-both": "VOC 2007, Lite0 at 224 px and Lite2 at 260 px side by side",
    "voc-lite0-160": "VOC 2007, EfficientNet-Lite0 at 160 px",
    "coco-lite0": "COCO 2014, EfficientNet-Lite0 at 224 px",
    "coco-lite2": "COCO 2014, EfficientNet-Lite2 at 260 px",
    "coco-lite0-128": "COCO 2014, EfficientNet-Lite0 at 128 px",
}
COLUMNS = (
    "Last mAP", "Avg mAP", "CF1 / OF1 / FPR at 0.8", "at 0.5", "ECE", "of Joint", "s / exp.", "state",
)  # fmt: skip
Rows = dict[str, dict[str, dict[str, Any]]]


def write_results(rows: Rows, path: Path) -> None:
    """All tables below the notes that stand in ``notes.md``."""
    parts = [(path.parent / "notes.md").read_text().rstrip()]
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
            lines += [_line(label, row, ceiling) for label, row in table.items()]
            parts.append("\n".join(lines))
        parts += _validation(tables)
    path.write_text("\n\n".join(parts) + "\n")


def _line(label: str, row: dict[str, Any], ceiling: float | None) -> str:
    last = {name: 100 * value for name, value in row["last"].items()}
    state = f"{row['state_bytes'] / 1e6:.1f} MB" if row["state_bytes"] else ""
    cells = [
        label,
        f"{last['mAP']:.1f}",
        f"{100 * row['average']:.1f}",
        *(
            f"{last[f'CF1@{t}']:.1f} / {last[f'OF1@{t}']:.1f} / {last[f'FPR@{t}']:.2f}"
            for t in ("0.8", "0.5")
        ),
        f"{100 * row['calibration_error']:.2f}",
        f"{row['last']['mAP'] / ceiling:.3f}" if ceiling else "",
        f"{row['seconds_per_experience']:.1f}",
        state,
    ]
    if label.startswith("L3A"):
        own = "0.525"
        cells[0] += f"; at {own}: {last[f'CF1@{own}']:.1f} / {last[f'OF1@{own}']:.1f}"
    return "| " + " | ".join(cells) + " |"


def _validation(tables: Rows) -> list[str]:
    lines = []
    for key, table in tables.items():
        if key.endswith(" val"):
            tried = (f"{label}: {100 * row['last']['mAP']:.1f}" for label, row in table.items())
            lines.append(
                f"Learning rates tried on validation images, Last mAP: {'; '.join(tried)}."
            )
    return lines


def draw_reliability(rows: Rows, path: Path) -> None:
    """Said against found, for closed form and for rows that train, on one panel per table."""
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
    figure, panels = pyplot.subplots(1, len(keys), figsize=(3.6 * len(keys), 3.6), squeeze=False)
    for key, panel in zip(keys, panels[0], strict=True):
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
    figure.savefig(path, dpi=110)
