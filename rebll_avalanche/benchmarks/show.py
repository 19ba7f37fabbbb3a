"""Draw example images of each experience with annotated and hidden classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from rebll_avalanche.labels import annotated
from rebll_avalanche.scenario import class_range

LABELLED, HIDDEN = "#1b7837", "#999999"


def draw_experiences(
    benchmark: Any, path: str | Path, *, images_per_experience: int = 6, stream: str = "train"
) -> Path:
    """Draw some images of each experience, with their annotated and their hidden classes.

    Args:
        benchmark: A benchmark of this package with images.
        path: The PNG file to write.
        images_per_experience: Number of images per experience.
        stream: ``"train"``, ``"test"`` or ``"valid"``.

    Returns:
        The path written to.
    """
    experiences = list(benchmark.streams[stream])
    columns, rows = images_per_experience + 1, len(experiences)
    figure = Figure(figsize=(1.7 * columns + 0.5, 2.0 * rows + 0.5), layout="constrained")
    figure.suptitle(
        f"{benchmark.scenario.name} {stream} stream: green classes are labelled, grey ones are in the "
        "image but not annotated",
        fontsize=11,
    )
    axes = figure.subplots(rows, columns, squeeze=False)
    for experience, line in zip(experiences, axes, strict=True):
        lo, hi = class_range(experience)
        names = [f"+ {name}" for name in benchmark.class_names[lo:hi]]
        if len(names) > 8:
            names = [*names[:7], f"+ {len(names) - 7} more"]
        heading = f"experience {experience.current_experience}\n{len(experience.dataset)} images"
        for axis in line:
            axis.set_axis_off()
        # Escape dollar signs in class names, which would start a formula.
        text = {"transform": line[0].transAxes, "va": "top", "wrap": True, "parse_math": False}
        line[0].text(0, 1, heading, fontsize=10, weight="bold", **text)
        line[0].text(0, 0.68, "\n".join(names), fontsize=9, color=LABELLED, **text)
        targets = experience.dataset.targets.data
        truth = experience.full_targets == 1
        hidden = truth & ~annotated(targets)
        pictures = experience.dataset.eval()
        for axis, index in zip(
            line[1:], _choose(targets, hidden, lo, hi, len(line) - 1), strict=False
        ):
            axis.imshow(_picture(pictures[index][0]), aspect="equal")
            shown = (targets[index] == 1).nonzero().flatten().tolist()
            kept = hidden[index].nonzero().flatten().tolist()
            captions = [(benchmark.class_names[column], LABELLED) for column in shown]
            captions += [(benchmark.class_names[column], HIDDEN) for column in kept]
            if len(captions) > 4:
                captions = [*captions[:3], (f"and {len(captions) - 3} more", "black")]
            for number, (caption, colour) in enumerate(captions):
                place = {"transform": axis.transAxes, "fontsize": 8, "color": colour}
                axis.text(0, -0.12 - 0.14 * number, caption, parse_math=False, **place)
    figure.savefig(path, dpi=100)
    return Path(path)


def _choose(targets: Tensor, hidden: Tensor, lo: int, hi: int, count: int) -> list[int]:
    """Choose images that show the new classes in turn, every other one with a hidden class if possible."""
    chosen: list[int] = []
    has_hidden = hidden.any(dim=1)
    for number in range(count):
        free = torch.ones(len(targets), dtype=torch.bool)
        free[chosen] = False
        wanted = free & (targets[:, lo + number % (hi - lo)] == 1)
        for candidates in (wanted & (has_hidden == bool(number % 2)), wanted, free):
            found = candidates.nonzero().flatten()
            if len(found):
                chosen.append(int(found[0]))
                break
    return chosen


def _picture(tensor: Any) -> Any:
    """Convert an image to channels last and to [0, 1], for plotting, whatever its normalisation."""
    if not isinstance(tensor, Tensor) or tensor.ndim != 3 or len(tensor) not in (1, 3):
        kind = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ValueError(f"only images [3, height, width] can be drawn, got {kind}")
    low, high = tensor.min(), tensor.max()
    if low < 0 or high > 1:
        tensor = (tensor - low) / (high - low)
    return tensor.permute(1, 2, 0).numpy()
