"""Ridge regression from sums: a head that forgets nothing, solved and calibrated in closed form.

Every image contributes to three sums and is then no longer needed. With ``z`` its features and a one
appended, and ``y`` its labels::

    gram = sum w z z^T      cross = sum w z y^T      label_squares = sum w y^2

The head that minimises ``sum w (y - W^T z)^2 + gamma |W|^2`` (the intercept is not penalised) follows
from them, and so do the number of images, the class counts, the generalised cross-validation error of
every ``gamma``, and the mean and variance of the scores of positives and negatives, hence
probabilities. Sums add up: over mini-batches, experiences, machines, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

# Four per decade are enough: the error is flat around its minimum.
GAMMAS = tuple(10.0 ** (power / 4) for power in range(-8, 25))
MAX_LEVERAGE = 0.6
SMALL = 1e-6


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
        self.gram += weighted.T @ rows
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
        self.cross += rows.T @ labels
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


@dataclass(frozen=True)
class LinearScores:
    """A linear function of the features, one column per class: ``z @ weight + bias``."""

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """``[images, classes]`` scores."""
        return features.to(self.weight) @ self.weight + self.bias

    def rescaled(self, slope: Tensor, offset: Tensor) -> LinearScores:
        """The function ``slope * score + offset``."""
        return LinearScores(self.weight * slope, self.bias * slope + offset)


class RidgeSolver:
    """Every ridge head that the sums allow.

    Args:
        sums: At least one image.
        intercept: Fit one, without a penalty.
    """

    def __init__(self, sums: RidgeSums, *, intercept: bool = True) -> None:
        if sums.images <= 0:
            raise ValueError("no images were added yet: train on an experience first")
        self.images = sums.images
        self.positives = sums.positives
        self.intercept = intercept
        self.feature_mean = sums.gram[-1, :-1] / self.images * intercept
        self.label_mean = self.positives / self.images * intercept
        self.scatter = sums.gram[:-1, :-1] - self.images * torch.outer(
            self.feature_mean, self.feature_mean
        )
        self.cross = sums.cross[:-1] - torch.outer(self.feature_mean, self.positives)
        self.label_scatter = sums.label_squares - self.images * self.label_mean.square()

    @cached_property
    def _spectrum(self) -> tuple[Tensor, Tensor, Tensor]:
        """Eigenvalues and eigenvectors of the scatter, and the cross products in that basis."""
        eigenvalues, basis = torch.linalg.eigh(self.scatter)
        return eigenvalues.clamp(min=0), basis, basis.T @ self.cross

    def solve(self, gamma: float | Tensor) -> LinearScores:
        """The ridge regression of the labels on the features.

        Args:
            gamma: The penalty: a number, or one per class (which takes an eigendecomposition).
        """
        if isinstance(gamma, Tensor):
            _, basis, rotated = self._spectrum
            weight = basis @ (rotated * self._shrinkage(gamma))
        else:
            penalty = gamma * torch.eye(len(self.scatter)).to(self.scatter)
            factor = torch.linalg.cholesky(self.scatter + penalty)
            weight = torch.cholesky_solve(self.cross, factor)
        return LinearScores(weight, self.label_mean - self.feature_mean @ weight)

    def leverage(self, gamma: float | Tensor) -> Tensor:
        """The mean leverage of an image, per class: degrees of freedom over images."""
        fitted = self._spectrum[0][:, None] * self._shrinkage(gamma)
        return (fitted.sum(0) + self.intercept) / self.images

    def cross_validation(self, gammas: Sequence[float] = GAMMAS) -> Tensor:
        """Generalised cross-validation: the expected squared error on a new image.

        Leave-one-out needs the leverage of every image, and so the images; the mean leverage needs
        only the sums. Putting the one in place of the other is generalised cross-validation. It says
        nothing about a head that nearly interpolates, so those errors are infinite.

        Returns:
            ``[gammas, classes]``.
        """
        eigenvalues, _, rotated = self._spectrum
        energy = rotated.square()
        errors = []
        for gamma in gammas:
            shrinkage = self._shrinkage(gamma)
            explained = (energy * shrinkage * (2 - eigenvalues[:, None] * shrinkage)).sum(0)
            residual = (self.label_scatter - explained) / self.images
            leverage = self.leverage(gamma)
            error = residual / (1 - leverage).square()
            errors.append(torch.where(leverage < MAX_LEVERAGE, error, torch.inf))
        return torch.stack(errors)

    def choose_gamma(self, gammas: Sequence[float] = GAMMAS, *, per_class: bool = False) -> Tensor:
        """The penalty with the smallest generalised cross-validation error.

        Args:
            gammas: Candidates, from small to large.
            per_class: One penalty for each class instead of one for all.

        Returns:
            One penalty per class (all equal unless ``per_class``).
        """
        candidates = torch.as_tensor(gammas).to(self.scatter)
        errors = self.cross_validation(gammas)
        errors[-1].nan_to_num_(posinf=torch.finfo(errors.dtype).max)  # if none is left, the largest
        if per_class:
            return candidates[errors.argmin(0)]
        return candidates[errors.sum(1).argmin()].expand(len(self.positives))

    def calibrate(self, scores: LinearScores, gamma: float | Tensor) -> LinearScores:
        """Turn scores into log-odds, from the sums alone.

        Scores of images with and without a class are taken as two Gaussians of one variance. Their
        means and that variance are those of images left out of the fit, with the mean leverage in
        place of each image's own; in-sample scores would be too confident.

        Args:
            scores: What :meth:`solve` returned.
            gamma: The penalty it was solved with.

        Returns:
            Log-odds: ``sigmoid`` of them estimates the probability that the class is there.
        """
        share = (self.positives + 0.5) / (self.images + 1)  # never 0 or 1
        negatives = (self.images - self.positives).clamp(min=1)
        total = self.images * (self.feature_mean @ scores.weight + scores.bias)
        of_positives = (self.cross * scores.weight).sum(0) + self.positives * total / self.images
        mean_positive = of_positives / self.positives.clamp(min=1)
        mean_negative = (total - of_positives) / negatives
        variance = (scores.weight * (self.scatter @ scores.weight)).sum(0) / self.images
        variance = variance - share * (1 - share) * (mean_positive - mean_negative).square()
        kept = 1 - self.leverage(gamma)
        # Left out, an image's score is (score - leverage * label) / (1 - leverage).
        mean_positive = (mean_positive - (1 - kept)) / kept
        mean_negative = mean_negative / kept
        variance = variance / kept.square()
        # A class whose images cannot be told apart keeps its order, with almost no confidence.
        gap = (mean_positive - mean_negative).clamp(min=SMALL)
        slope = gap / variance.clamp(min=SMALL)
        offset = share.logit() - slope * (mean_positive + mean_negative) / 2
        return scores.rescaled(slope, offset)

    def _shrinkage(self, gamma: float | Tensor) -> Tensor:
        gamma = torch.as_tensor(gamma).to(self.scatter).expand(len(self.positives))
        return 1 / (self._spectrum[0][:, None] + gamma)


def with_one(features: Tensor) -> Tensor:
    """Features in float64 with a one appended, whose weight is the intercept."""
    rows = features.to(torch.float64)
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
