"""Ridge regression from sums: a head without forgetting, solved and calibrated in closed form.

Every image contributes to three sums and is then no longer needed. With ``z`` its features with a one
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
from typing import NamedTuple

import torch
from torch import Tensor

from rebll_avalanche.closed_form.sums import RidgeSums

# Four per decade suffice: the error is flat around its minimum.
GAMMAS = tuple(10.0 ** (power / 4) for power in range(-8, 25))
MAX_LEVERAGE = 0.6
MIN_GAP = 1e-6
MIN_SPREAD = 1e-3


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


@dataclass(frozen=True)
class ScoreMoments:
    """How the scores of each class are distributed.

    Attributes:
        positive: Mean score of images that have the class.
        negative: Mean score of the others.
        spread: Standard deviation around these means.
        overall: Standard deviation of all scores, which needs no labels.
        share: Share of images that have the class.
    """

    positive: Tensor
    negative: Tensor
    spread: Tensor
    overall: Tensor
    share: Tensor

    def gaussian_line(self) -> tuple[Tensor, Tensor]:
        """Slope and offset of the log-odds for Gaussian positives and negatives of equal spread."""
        # A class whose positives are not separable keeps its ranking, with almost no confidence.
        gap = (self.positive - self.negative).clamp(min=MIN_GAP)
        slope = gap / self.spread.square()
        return slope, self.share.logit() - slope * (self.positive + self.negative) / 2


class RidgeSolver:
    """Solves ridge regressions for any penalty from the sums.

    Args:
        sums: Sums over at least one image.
        intercept: Fit an intercept, without a penalty.
        same_images: Solver of the same images with other labels, whose eigenvectors are used.
    """

    def __init__(
        self, sums: RidgeSums, *, intercept: bool = True, same_images: RidgeSolver | None = None
    ) -> None:
        if sums.images <= 0:
            raise ValueError("no images have been added; train on an experience first")
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
        self._same_images = same_images

    @cached_property
    def _eigen(self) -> tuple[Tensor, Tensor]:
        if self._same_images is not None:
            return self._same_images._eigen
        eigenvalues, basis = torch.linalg.eigh(self.scatter)
        return eigenvalues.clamp(min=0), basis

    @cached_property
    def _spectrum(self) -> tuple[Tensor, Tensor, Tensor]:
        """Eigenvalues and eigenvectors of the scatter, and the cross products in that basis."""
        eigenvalues, basis = self._eigen
        return eigenvalues, basis, basis.T @ self.cross

    def solve(self, gamma: float | Tensor) -> LinearScores:
        """The ridge regression of the labels on the features.

        Args:
            gamma: The penalty: a number, or one per class (which needs an eigendecomposition).
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

    def cross_validation(self, gammas: Sequence[float]) -> Tensor:
        """Generalised cross-validation: the expected squared error on a new image.

        Leave-one-out needs the leverage of every image, and so the images; the mean leverage needs
        only the sums. Replacing the former by the latter is generalised cross-validation. It is not
        meaningful for a head that nearly interpolates, so those errors are infinite.

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

    def choose_gamma(self, *, per_class: bool = False) -> Tensor:
        """The penalty with the smallest generalised cross-validation error.

        Args:
            per_class: Choose one penalty per class instead of one for all.

        Returns:
            One penalty per class (all equal unless ``per_class``).
        """
        candidates = torch.as_tensor(GAMMAS).to(self.scatter)
        errors = self.cross_validation(GAMMAS)
        errors[-1].nan_to_num_(posinf=torch.finfo(errors.dtype).max)  # if none is left, the largest
        if per_class:
            return candidates[errors.argmin(0)]
        return candidates[errors.sum(1).argmin()].expand(len(self.positives))

    def moments(self, scores: LinearScores, gamma: float | Tensor) -> ScoreMoments:
        """Mean and spread of leave-one-out scores, from the sums alone.

        In-sample scores are better than those of new images. The leave-one-out score of an image is
        ``(score - leverage * label) / (1 - leverage)``; with the mean leverage in place of each
        image's own, the moments of these scores follow from those of the in-sample scores.

        Args:
            scores: Result of :meth:`solve`, with an intercept.
            gamma: The penalty it was solved with.
        """
        share = self.positives / self.images
        mean = self.feature_mean @ scores.weight + scores.bias
        of_positives = (self.cross * scores.weight).sum(0) + self.positives * mean
        positive = of_positives / self.positives.clamp(min=1)
        negatives = (self.images - self.positives).clamp(min=1)
        negative = (self.images * mean - of_positives) / negatives
        overall = (scores.weight * (self.scatter @ scores.weight)).sum(0) / self.images
        variance = overall - share * (1 - share) * (positive - negative).square()
        kept = 1 - self.leverage(gamma)
        return ScoreMoments(
            positive=(positive - (1 - kept)) / kept,
            negative=negative / kept,
            spread=variance.clamp(min=MIN_SPREAD**2).sqrt() / kept,
            overall=overall.clamp(min=MIN_SPREAD**2).sqrt(),
            share=(self.positives + 0.5) / (self.images + 1),  # never 0 or 1
        )

    def left_out(
        self,
        scores: LinearScores,
        gamma: float | Tensor,
        features: Tensor,
        labels: Tensor,
        places: Tensor | None = None,
    ) -> Tensor:
        """Leave-one-out scores of added images, each by the head fitted to all other images.

        Args:
            scores: Result of :meth:`solve`.
            gamma: The penalty it was solved with.
            features: ``[images, num_features]``.
            labels: The labels that these images were added with.
            places: ``[images, places, num_features]``: vectors to score for each image instead of its
                features. The result is then ``[images, places, classes]``.
        """
        shrinkage = self._shrinkage(gamma)
        rotated = self._rotated(features)
        leverage = rotated.square() @ shrinkage + self.intercept / self.images
        # The change of an image's score due to its own label, divided by its leverage.
        pull = (labels.to(leverage) - scores(features)) / (1 - leverage)
        if places is None:
            return scores(features) - leverage * pull
        shared = self._rotated(places) * rotated[:, None]
        return scores(places) - (shared @ shrinkage + self.intercept / self.images) * pull[:, None]

    def _rotated(self, features: Tensor) -> Tensor:
        return (features.to(self.scatter) - self.feature_mean) @ self._spectrum[1]

    def _shrinkage(self, gamma: float | Tensor) -> Tensor:
        gamma = torch.as_tensor(gamma).to(self.scatter).expand(len(self.positives))
        return 1 / (self._spectrum[0][:, None] + gamma)


class Solution(NamedTuple):
    """A head, the penalty that it was solved with, and its solver."""

    solver: RidgeSolver
    scores: LinearScores
    gamma: float | Tensor

    def moments(self) -> ScoreMoments:
        """See :meth:`RidgeSolver.moments`."""
        return self.solver.moments(self.scores, self.gamma)

    def left_out(self, features: Tensor, labels: Tensor, places: Tensor | None = None) -> Tensor:
        """See :meth:`RidgeSolver.left_out`."""
        return self.solver.left_out(self.scores, self.gamma, features, labels, places)
