"""Scores from a whole image and from overlapping windows of an enlarged copy.

A small object hardly changes the mean over a whole image. A head trained on whole images also recognises
it in a window, where it is large, without further training. Inputs with windows are
``[batch, 1 + windows, features]``, the whole image first.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Chosen on VOC's validation images: see benchmarks/closed_form/notes.md.
ENLARGED = 1.5
PER_SIDE = 4
SHARE = 1 / 3
WEIGHT = 0.5


def window_means(feature_map: Tensor) -> Tensor:
    """Mean features per window, row by row: ``[batch, PER_SIDE ** 2, channels]``."""
    rows, columns = (_places(side) for side in feature_map.shape[2:])
    means = [feature_map[:, :, row, column].mean(dim=(2, 3)) for row in rows for column in columns]
    return torch.stack(means, dim=1)


def seen_twice(scores: Tensor) -> Tensor:
    """One score per class from ``[batch, 1 + windows, classes]``: the whole's, raised by the best window."""
    return (scores[:, 0] + WEIGHT * scores[:, 1:].amax(dim=1)) / (1 + WEIGHT)


def _places(side: int) -> list[slice]:
    length = max(round(side * SHARE), 1)
    starts = [round(place * (side - length) / (PER_SIDE - 1)) for place in range(PER_SIDE)]
    return [slice(start, start + length) for start in starts]
