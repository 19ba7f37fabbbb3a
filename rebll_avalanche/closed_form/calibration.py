"""Calibration of scores with three coefficients learned along the stream.

A ridge score is not a log-odds: positives spread more than negatives, and both are skewed, so that two
Gaussians of equal variance are far too confident. But in units of its class's spread, a score means
nearly the same for every class. So one logistic regression serves all classes::

    log-odds = slope * score / spread + prior_weight * log(share / (1 - share)) + offset

with the spread of the scores and the share of images per class from the sums, and the three
coefficients fitted to images of the current experience, each scored by a head fitted without it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rebll_avalanche.stateful import Stateful

# Prior from VOC 2007's train images; a few hundred labels outweigh it.
START = (1.5, 1.0, -2.6)
START_PRECISION = 10.0
MAX_STEPS = 50
TOLERANCE = 1e-8


class ScoreCalibration(Stateful):
    """A logistic regression over all classes, updated once per experience.

    Earlier experiences are summarised by a Gaussian over the coefficients: mean and precision, twelve
    numbers. It is the prior for fitting the next experience.
    """

    stored = ("coefficients", "precision")

    def __init__(self) -> None:
        self.coefficients = torch.tensor(START, dtype=torch.float64)
        self.precision = START_PRECISION * torch.eye(3, dtype=torch.float64)

    def fit(
        self,
        scores: Tensor,
        labels: Tensor,
        spread: Tensor,
        share: Tensor,
        weights: Tensor | None = None,
    ) -> None:
        """Fit to the images of an experience.

        Args:
            scores: ``[images, classes]``, each from a head fitted without that image.
            labels: Labels of the same shape; NaN where unknown.
            spread: Standard deviation of the scores within a class, per class.
            share: Share of images that have the class, per class.
            weights: Weight of each label; equal by default.
        """
        known = ~torch.isnan(labels)
        parts = (scores / spread, share.logit().expand_as(scores), torch.ones_like(scores))
        inputs = torch.stack([part[known] for part in parts], dim=1).double()
        targets = labels[known].double()
        counts = 1.0 if weights is None else weights[known].double()
        prior_mean, prior_precision = self.coefficients, self.precision
        current = prior_mean.clone()
        for _ in range(MAX_STEPS):
            probability = (inputs @ current).sigmoid()
            weight = counts * probability * (1 - probability)
            self.precision = prior_precision + (inputs * weight[:, None]).T @ inputs
            gradient = inputs.T @ (counts * (probability - targets))
            gradient = gradient + prior_precision @ (current - prior_mean)
            step = torch.linalg.solve(self.precision, gradient)
            # The objective is convex; a bounded step keeps Newton's method from overshooting.
            current = current - step / max(1.0, float(step.norm()))
            if float(step.norm()) < TOLERANCE:
                break
        self.coefficients = current

    def line(self, spread: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Slope and offset per class: ``log-odds = slope * score + offset``."""
        slope, prior_weight, offset = self.coefficients.to(spread)
        # A negative slope, possible with a handful of labels, would reverse the ranking.
        return slope.clamp(min=1e-3) / spread, prior_weight * share.logit() + offset

    def merge(self, other: ScoreCalibration) -> None:
        """Combine two calibrations: the product of their Gaussians, counting the common prior once."""
        start = torch.tensor(START, dtype=torch.float64)
        start_precision = START_PRECISION * torch.eye(3, dtype=torch.float64)
        precision = self.precision + other.precision - start_precision
        pull = self.precision @ self.coefficients + other.precision @ other.coefficients
        self.coefficients = torch.linalg.solve(precision, pull - start_precision @ start)
        self.precision = precision


class Calibrations(Stateful):
    """One for streams in which unannotated classes are absent, one where these are guessed.

    Both learn from every experience, since what a stream is may turn out later.
    """

    stored = ("absent", "guessed")

    def __init__(self) -> None:
        self.absent, self.guessed = ScoreCalibration(), ScoreCalibration()

    def merge(self, other: Calibrations) -> None:
        """Combine each with its counterpart."""
        self.absent.merge(other.absent)
        self.guessed.merge(other.guessed)


def share_weights(labels: Tensor, share: Tensor) -> Tensor:
    """Weights that correct each class's share of positives among its given labels.

    An experience consists of images that have its classes, so positives are far more frequent among
    its labels than among all images.

    Args:
        labels: ``[images, classes]`` of 1, 0 and NaN.
        share: True share of images that have the class, per class.
    """
    positives, negatives = (labels == 1).sum(0), (labels == 0).sum(0)
    given = (positives + negatives).to(share)
    of_positives = share * given / positives.clamp(min=1)
    of_negatives = (1 - share) * given / negatives.clamp(min=1)
    return torch.where(labels == 1, of_positives, of_negatives)
