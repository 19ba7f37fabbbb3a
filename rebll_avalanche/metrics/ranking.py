"""Scores sorted per class, shared by all metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rebll_avalanche.arguments import check_tensor
from rebll_avalanche.labels import check_targets


@dataclass(frozen=True, eq=False)
class Ranking:
    """Annotated scores of each class in ascending order, and those of its positives.

    ``scores`` and ``positive`` are ``[classes, samples]`` in the order given, -inf where a sample is
    not annotated for the class; ``ascending`` is ``scores`` sorted. ``positives`` holds the scores
    of the positives, sorted, one row per class, padded with +inf at the end.

    Uses NumPy, which sorts values with vector instructions and without indices, three times as fast as
    torch, and runs short operations without waiting for a thread pool.
    """

    scores: np.ndarray
    positive: np.ndarray
    ascending: np.ndarray
    positives: np.ndarray
    num_positives: np.ndarray
    num_annotated: np.ndarray

    @classmethod
    def of(cls, scores: Tensor, truth: Tensor) -> Ranking:
        """Validate and sort the scores."""
        check_tensor("scores", scores)
        check_tensor("truth", truth)
        if scores.ndim != 2 or scores.shape != truth.shape:
            raise ValueError(
                f"scores and truth must both be [samples, classes], "
                f"got {tuple(scores.shape)} and {tuple(truth.shape)}"
            )
        if not scores.is_floating_point():
            raise ValueError(
                f"scores must be floating point, got {scores.dtype}; convert with scores.float()"
            )
        # From here on, samples of one class are contiguous in memory, for fast sorting.
        by_class = _rows_of_classes(scores)
        labels = _rows_of_classes(truth)
        positive, negative = labels == 1, labels == 0
        num_positives = np.count_nonzero(positive, axis=1)
        num_annotated = num_positives + np.count_nonzero(negative, axis=1)
        if num_annotated.sum() < labels.size:
            check_targets(truth if truth.is_floating_point() else truth.float())
            by_class = np.where(positive | negative, by_class, by_class.dtype.type(-np.inf))
        ascending = np.sort(by_class, axis=1)
        _check_finite(ascending, num_annotated)

        places = np.arange(num_positives.max(initial=0))
        positives = np.full((len(by_class), len(places)), np.inf, dtype=by_class.dtype)
        positives[places < num_positives[:, None]] = by_class[positive]
        return cls(
            scores=by_class,
            positive=positive,
            ascending=ascending,
            positives=np.sort(positives, axis=1),
            num_positives=num_positives,
            num_annotated=num_annotated,
        )


def _rows_of_classes(matrix: Tensor) -> np.ndarray:
    if matrix.dtype in (torch.float16, torch.bfloat16):
        matrix = matrix.float()
    return matrix.detach().cpu().t().contiguous().numpy()


def _check_finite(ascending: np.ndarray, num_annotated: np.ndarray) -> None:
    # In sorted order, non-finite values are at the ends: -inf first, +inf and NaN last.
    samples = ascending.shape[1]
    for column in np.flatnonzero(num_annotated):
        for end in (ascending[column, samples - num_annotated[column]], ascending[column, -1]):
            if not np.isfinite(end):
                raise ValueError(
                    f"scores must be finite, got {end} for class {column}; has the model diverged?"
                )


def num_below(ascending: np.ndarray, values: np.ndarray, *, or_equal: bool = False) -> np.ndarray:
    """Number of entries of each row below each of the row's ``values``, for all rows at once."""
    places = torch.searchsorted(
        torch.from_numpy(ascending), torch.from_numpy(values), right=or_equal
    )
    return places.numpy()
