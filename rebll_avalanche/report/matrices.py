"""Matrices: the label block matrix of memory (the paper's figure 3), and AP by class and experience."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from rebll_avalanche.report.groups import Group
from rebll_avalanche.report.style import INK, MUTED, PAPER, canvas

UNKNOWN, GROUND_TRUTH, PREVIOUS_MODEL, CURRENT_MODEL = range(4)
# Origin of a label as named in the legend, and its colour; absent labels have the same colour, faint.
SAID_BY = {
    GROUND_TRUTH: ("ground truth", "#7a828b"),
    PREVIOUS_MODEL: ("previous model", "#2f7fd0"),
    CURRENT_MODEL: ("model just trained", "#e0761a"),
}
ABSENT = 0.28
AP_COLOURS = "viridis"


def memory_matrix(
    memory: dict[str, np.ndarray], blocks: Sequence[dict[str, float]] = (), *, width: float
) -> Figure:
    """One row per remembered image, one column per class, in blocks of experiences.

    Colour shows the origin of the label; full colour is present, faint absent, empty unknown.

    Args:
        memory: The content of ``memory.npz``.
        blocks: Accuracy of relabelling, written into each block that has one.
        width: Width in pixels.
    """
    experience, ends = memory["experience"], memory["class_ends"]
    labels, provenance = memory["labels"][:, : ends[-1]], memory["provenance"][:, : ends[-1]]
    rows, columns = labels.shape
    pixels = np.zeros((rows, columns, 4))
    for who, (_, colour) in SAID_BY.items():
        said = provenance == who
        pixels[said, :3] = to_rgb(colour)
        pixels[said, 3] = np.where(labels[said] > 0.5, 1.0, ABSENT)
    height = min(max(rows * 8, 160), 1.15 * width) + 40
    with canvas(width, height) as (figure, axes):
        axes.grid(False)
        axes.imshow(pixels, interpolation="none", aspect="auto", extent=(0, columns, rows, 0))
        breaks = (np.flatnonzero(np.diff(experience)) + 1).tolist()
        for place in breaks:
            axes.axhline(place, color=PAPER, linewidth=2)
        for place in ends[:-1].tolist():
            axes.axvline(place, color=PAPER, linewidth=2)
        column_starts = np.concatenate([[0], ends[:-1]])
        axes.set_xticks((column_starts + ends) / 2, [str(1 + i) for i in range(len(ends))])
        row_edges = np.array([0, *breaks, rows])
        numbers = experience[row_edges[:-1]].tolist()
        row_centres = (row_edges[:-1] + row_edges[1:]) / 2
        axes.set_yticks(row_centres, [str(1 + number) for number in numbers])
        for block in blocks:
            # A run that was stopped while it wrote may have a newer memory than its last line.
            if block["images"] not in numbers:
                continue
            axes.text(
                (column_starts + ends)[int(block["classes"])] / 2,
                row_centres[numbers.index(block["images"])],
                f"{100 * block['right']:.0f}",
                ha="center", va="center", fontsize=min(8, 60 / len(ends)), fontweight="bold",
                bbox={"boxstyle": "round,pad=0.15", "facecolor": PAPER, "linewidth": 0},
            )  # fmt: skip
        axes.tick_params(length=0)
        axes.spines[:].set_visible(True)
        axes.set_xlabel("classes of experience")
        axes.set_ylabel("images of experience")
    return figure


def memory_shares(memory: dict[str, np.ndarray]) -> list[tuple[str, str, float]]:
    """``(origin, colour, share)`` of the labels of seen classes."""
    provenance = memory["provenance"][:, : memory["class_ends"][-1]]
    return [
        (name, colour, float((provenance == who).mean())) for who, (name, colour) in SAID_BY.items()
    ]


def class_ap_matrix(group: Group, *, width: float) -> Figure:
    """AP of each class after each experience; a class has none before it is learned."""
    names, values = group.class_ap()
    rows, columns = values.shape
    with canvas(width, 13 * rows + 56) as (figure, axes):
        axes.grid(False)
        image = axes.imshow(
            100 * values, cmap=AP_COLOURS, vmin=0, vmax=100, interpolation="none", aspect="auto"
        )
        for row in range(rows):
            for column in {int(np.argmax(~np.isnan(values[row]))), columns - 1}:
                shown = values[row, column]
                if not np.isnan(shown):
                    bright = np.dot(image.cmap(shown)[:3], (0.3, 0.6, 0.1)) > 0.5
                    axes.text(
                        column, row, f"{100 * shown:.0f}", ha="center", va="center", fontsize=8,
                        color="#000000" if bright else "#ffffff",
                    )  # fmt: skip
        axes.set_yticks(range(rows), names, color=INK, fontsize=8.5)
        axes.set_xticks(range(columns), [str(1 + c) for c in range(columns)])
        axes.tick_params(length=0)
        axes.spines["bottom"].set_visible(False)
        axes.set_xlabel("after experience", color=MUTED)
    return figure
