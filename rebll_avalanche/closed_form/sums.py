"""What a ridge regression needs to know of all images: three sums, and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor


class RidgeSums:
    """What is remembered of all images: sums in float64 and nothing else.

    Args:
        num_features: Length of the feature vectors.
        num_classes: Classes known so far; :meth:`grow` adds more.

    >>> sums = RidgeSums(num_features=2, num_classes=1)
    >>> sums.add(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0], [0.0]]))
    >>> sums.images, sums.positives.tolist()
    (2.0, [1.0])
    """

    def __init__(self, num_features: int, num_classes: int = 0) -> None:
        self.gram = torch.zeros(num_features + 1, num_features + 1, dtype=torch.float64)
        self.cross = torch.zeros(num_features + 1, num_classes, dtype=torch.float64)
        self.label_squares = torch.zeros(num_classes, dtype=torch.float64)

    @property
    def num_features(self) -> int:
        """Length of the feature vectors."""
        return len(self.gram) - 1

    @property
    def num_classes(self) -> int:
        """Classes known so far."""
        return self.cross.shape[1]

    @property
    def images(self) -> float:
        """How many images were added (the sum of their weights)."""
        return float(self.gram[-1, -1])

    @property
    def positives(self) -> Tensor:
        """How many of them showed each class (the sum of their labels)."""
        return self.cross[-1]

    def grow(self, num_classes: int) -> None:
        """Make room for more classes: nothing seen so far is a positive of them."""
        new = num_classes - self.num_classes
        if new < 0:
            raise ValueError(
                f"{self.num_classes} classes are known, cannot shrink to {num_classes}"
            )
        self.cross = torch.cat([self.cross, self.cross.new_zeros(len(self.cross), new)], dim=1)
        self.label_squares = torch.cat([self.label_squares, self.label_squares.new_zeros(new)])

    def add(self, features: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add images that were not seen before.

        Args:
            features: ``[images, num_features]``.
            labels: ``[images, num_classes]``, in [0, 1] and free of NaN: the caller decides what an
                unknown label counts as.
            weights: How much each image counts; 1 by default.
        """
        self._check(features, labels)
        rows, labels = with_one(features), labels.to(self.cross)
        weighted = rows if weights is None else rows * weights.to(rows)[:, None]
        self.gram.addmm_(weighted.T, rows)  # in place: the product is as large as the sums
        self._add_labels(weighted, labels, weights)

    def add_labels(self, features: Tensor, labels: Tensor) -> None:
        """Add labels to images that were added before: only the labels are new.

        Args:
            features: The same features as before.
            labels: Only of what was counted as absent before; 0 changes nothing.
        """
        self._check(features, labels)
        self._add_labels(with_one(features), labels.to(self.cross), None)

    def fill(self, values: Tensor, columns: slice, without: Tensor) -> None:
        """Change labels of images seen so far from absent to one value per class.

        Args:
            values: For each of ``columns``, what these images count as.
            columns: The classes that were not annotated.
            without: ``sum z`` (with a one appended) of the images that it does not concern.
        """
        values = values.to(self.cross)
        rows = self.gram[:, -1] - without.to(self.gram)
        self.cross[:, columns] += torch.outer(rows, values)
        self.label_squares[columns] += rows[-1] * values.square()

    def merge(self, other: RidgeSums) -> None:
        """Add what somebody else has seen; the result equals one pass over both."""
        if other.num_features != self.num_features:
            raise ValueError(
                f"sums of {other.num_features} features cannot be added to sums of "
                f"{self.num_features}; both need the same frozen backbone"
            )
        self.grow(max(self.num_classes, other.num_classes))
        self.gram += other.gram
        self.cross[:, : other.num_classes] += other.cross
        self.label_squares[: other.num_classes] += other.label_squares

    def all_reduce(self) -> None:
        """Add up the sums of all workers of a distributed run; does nothing in a single process."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for tensor in self.state_dict().values():
                torch.distributed.all_reduce(tensor)

    def state_dict(self) -> dict[str, Tensor]:
        """The three sums themselves, not copies."""
        return {"gram": self.gram, "cross": self.cross, "label_squares": self.label_squares}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from saved sums, of any number of features and classes."""
        self.gram = state["gram"].to(torch.float64).clone()
        self.cross = state["cross"].to(torch.float64).clone()
        self.label_squares = state["label_squares"].to(torch.float64).clone()

    def to(self, device: torch.device | str) -> RidgeSums:
        """Move the sums; returns itself."""
        self.load_state_dict({name: sum_.to(device) for name, sum_ in self.state_dict().items()})
        return self

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
            raise ValueError("labels contain NaN: decide what an unknown label counts as first")


def with_one(features: Tensor) -> Tensor:
    """Features in float64 with a one appended, whose weight is the intercept."""
    rows = features.to(torch.float64)
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
