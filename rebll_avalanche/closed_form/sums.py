"""The three sums over images that a ridge regression needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from rebll_avalanche.stateful import Stateful


class LabelSums(Stateful):
    """The sums that depend on labels, in float64: ``sum z y^T`` and ``sum y^2``.

    Args:
        num_features: Length of the feature vectors.
        num_classes: Classes known so far; :meth:`grow` adds more.
    """

    stored: ClassVar[tuple[str, ...]] = ("cross", "label_squares")

    def __init__(self, num_features: int, num_classes: int = 0) -> None:
        self.cross = torch.zeros(num_features + 1, num_classes, dtype=torch.float64)
        self.label_squares = torch.zeros(num_classes, dtype=torch.float64)

    @property
    def num_features(self) -> int:
        """Length of the feature vectors."""
        return len(self.cross) - 1

    @property
    def num_classes(self) -> int:
        """Classes known so far."""
        return self.cross.shape[1]

    @property
    def positives(self) -> Tensor:
        """Number of images with each class (the sum of their labels)."""
        return self.cross[-1]

    def grow(self, num_classes: int) -> None:
        """Add classes, for which all images so far are negatives."""
        new = num_classes - self.num_classes
        if new < 0:
            raise ValueError(
                f"num_classes must be at least {self.num_classes}, the classes so far, got {num_classes}"
            )
        self.cross = torch.cat([self.cross, self.cross.new_zeros(len(self.cross), new)], dim=1)
        self.label_squares = torch.cat([self.label_squares, self.label_squares.new_zeros(new)])

    def add(self, features: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add labels of images.

        Args:
            features: ``[images, num_features]``.
            labels: ``[images, num_classes]``, in [0, 1] without NaN: the caller replaces unknown
                labels.
            weights: Weight of each image; 1 by default.
        """
        self._check(features, labels)
        rows = with_one(features)
        self._add_labels(weighted(rows, weights), labels.to(self.cross), weights)

    def relabel(self, features: Tensor, before: Tensor, after: Tensor) -> None:
        """Change labels that were added with a weight of 1.

        Args:
            features: The same features as before.
            before: The labels as counted so far; 0 where there was none.
            after: The new labels.
        """
        self._check(features, before)
        self._check(features, after)
        before, after = before.to(self.cross), after.to(self.cross)
        self.cross.addmm_(with_one(features).T, after - before)
        self.label_squares += (after.square() - before.square()).sum(0)

    def clear(self, columns: Sequence[int]) -> None:
        """Remove every label of some classes."""
        self.cross[:, list(columns)] = 0
        self.label_squares[list(columns)] = 0

    def merge(self, other: LabelSums) -> None:
        """Add the sums of another; the result equals one pass over both."""
        if other.num_features != self.num_features:
            raise ValueError(
                f"cannot add sums of {other.num_features} features to sums of "
                f"{self.num_features}; use the same frozen backbone for both"
            )
        self.grow(max(self.num_classes, other.num_classes))
        self.cross[:, : other.num_classes] += other.cross
        self.label_squares[: other.num_classes] += other.label_squares

    @property
    def num_bytes(self) -> int:
        """Size of the state."""
        return sum(sum_.numel() * sum_.element_size() for sum_ in self.state_dict().values())

    def _add_labels(self, rows: Tensor, labels: Tensor, weights: Tensor | None) -> None:
        self.cross.addmm_(rows.T, labels)
        squares = labels.square()
        if weights is not None:
            squares = squares * weights.to(squares)[:, None]
        self.label_squares += squares.sum(0)

    def _check(self, features: Tensor, labels: Tensor) -> None:
        expected = (len(features), self.num_features), (len(features), self.num_classes)
        if (tuple(features.shape), tuple(labels.shape)) != expected:
            raise ValueError(
                f"expected features [images, {self.num_features}] and labels "
                f"[images, {self.num_classes}], got {tuple(features.shape)} and {tuple(labels.shape)}"
            )
        if not bool(torch.isfinite(labels).all()):
            raise ValueError("labels must not contain NaN; replace unknown labels first")


class RidgeSums(LabelSums):
    """All sums over images: those of :class:`LabelSums`, and ``sum z z^T``.

    Args:
        num_features: Length of the feature vectors.
        num_classes: Classes known so far; :meth:`grow` adds more.

    >>> sums = RidgeSums(num_features=2, num_classes=1)
    >>> sums.add(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0], [0.0]]))
    >>> sums.images, sums.positives.tolist()
    (2.0, [1.0])
    """

    stored = ("gram", "cross", "label_squares")

    def __init__(self, num_features: int, num_classes: int = 0) -> None:
        super().__init__(num_features, num_classes)
        self.gram = torch.zeros(num_features + 1, num_features + 1, dtype=torch.float64)

    @property
    def images(self) -> float:
        """Number of images added (the sum of their weights)."""
        return float(self.gram[-1, -1])

    def add(self, features: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add new images, with labels without NaN."""
        self._check(features, labels)
        rows = with_one(features)
        scaled = weighted(rows, weights)
        self.gram.addmm_(scaled.T, rows)  # in place, since the product is as large as the sums
        self._add_labels(scaled, labels.to(self.cross), weights)

    def remove(self, features: Tensor, labels: Tensor) -> None:
        """Remove images that were added with these labels and a weight of 1."""
        self.add(features, labels, features.new_full((len(features),), -1.0))

    def merge(self, other: LabelSums) -> None:
        """Add the sums of another; the result equals one pass over both."""
        super().merge(other)
        if isinstance(other, RidgeSums):
            self.gram += other.gram

    def with_guesses(self, guesses: LabelSums, share: float) -> RidgeSums:
        """The same images, with a share of the guesses added for missing labels."""
        if not share:
            return self
        both = RidgeSums(0)
        both.gram = self.gram
        both.cross = self.cross + share * guesses.cross
        both.label_squares = self.label_squares + share**2 * guesses.label_squares
        return both


def with_one(features: Tensor) -> Tensor:
    """Features in float64 with a one appended for the intercept."""
    rows = features.to(torch.float64)
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)


def weighted(rows: Tensor, weights: Tensor | None) -> Tensor:
    """Each row times its weight."""
    return rows if weights is None else rows * weights.to(rows)[:, None]
