"""A picture looked at twice: as a whole, and in overlapping windows of an enlarged copy.

A small object hardly moves the mean over a whole picture. What a head has learned of whole pictures it
also recognises in windows, where such an object is large; nothing has to be learned for that. Inputs of this
kind are ``[batch, 1 + windows, features]``, the whole picture first.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Chosen on VOC's own val images: see benchmarks/closed_form/RESULTS.md.
ENLARGED = 1.5
PER_SIDE = 4
SHARE = 1 / 3
WEIGHT = 0.5


def window_means(feature_map: Tensor) -> Tensor:
    """Mean features of every window, row by row: ``[batch, PER_SIDE ** 2, channels]``."""
    rows, columns = (_places(side) for side in feature_map.shape[2:])
    means = [feature_map[:, :, row, column].mean(dim=(2, 3)) for row in rows for column in columns]
    return torch.stack(means, dim=1)


def seen_twice(scores: Tensor) -> Tensor:
    """One score per class of ``[batch, 1 + windows, classes]``: of the whole, raised by the best window."""
    return (scores[:, 0] + WEIGHT * scores[:, 1:].amax(dim=1)) / (1 + WEIGHT)


def _places(side: int) -> list[slice]:
    length = max(round(side * SHARE), 1)
    starts = [round(place * (side - length) / (PER_SIDE - 1)) for place in range(PER_SIDE)]
    return [slice(start, start + length) for start in starts]
