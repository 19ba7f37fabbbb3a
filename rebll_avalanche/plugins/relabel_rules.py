"""Rules that turn a model's probabilities into labels of memory images."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from rebll_avalanche.labels import UNKNOWN, grown
from rebll_avalanche.losses import posterior_from_score
from rebll_avalanche.stateful import Stateful

Rule = Literal["score", "posterior", "prevalence", "soft", "adaptive"]
# In bits: an entry with a higher entropy relative to its class's threshold stays unknown.
MOST_ENTROPY = 0.8
LOWEST_BAR = 0.1


def labels_from(
    probability: Tensor,
    *,
    rule: str = "score",
    threshold: float,
    exponent: float = 0.0,
    detach_weight: bool = False,
    shares: Tensor | None = None,
) -> Tensor:
    """Labels of images from a model's probabilities, ``[images, classes]`` both.

    Args:
        probability: Probability of each class in each image.
        rule: ``"score"``: present if the probability is above ``threshold``, as in the paper;
            ``"posterior"``: present if the posterior for which this probability minimises the asymmetric
            loss is above (:func:`~rebll_avalanche.losses.posterior_from_score`);
            ``"prevalence"``: present in the images with the highest probabilities, as many as the
            class's share of the stream; ``"soft"``: the probability itself is the label;
            ``"adaptive"``: each class has its own threshold (:func:`class_bars`), and entries too close
            to it, by the entropy of the score relative to the threshold, stay unknown (NaN).
        threshold: For the first two rules; for ``"adaptive"`` the largest class threshold.
        exponent: Exponent of the asymmetric loss that the model was trained with, for ``"posterior"``.
        detach_weight: Likewise.
        shares: Share of images per class, for ``"prevalence"``.

    >>> said = torch.tensor([[0.4, 0.9], [0.3, 0.8], [0.1, 0.7]])
    >>> labels_from(said, threshold=0.5)[:, 0].tolist()
    [0.0, 0.0, 0.0]
    >>> labels_from(said, threshold=0.5, rule="posterior", exponent=3.6)[:, 0].tolist()
    [1.0, 0.0, 0.0]
    >>> shares = torch.tensor([0.3, 0.3])
    >>> labels_from(said, threshold=0.5, rule="prevalence", shares=shares)[:, 1].tolist()
    [1.0, 0.0, 0.0]
    """
    if rule == "soft":
        return probability.float()
    if rule == "prevalence":
        if shares is None:
            raise ValueError(
                "relabelling by prevalence needs shares=..., each class's share of images"
            )
        wanted = (shares * len(probability)).round()
        place = probability.argsort(dim=0, descending=True, stable=True).argsort(dim=0)
        return (place < wanted).float()
    if rule == "adaptive":
        relative = (probability / (2 * class_bars(probability, threshold))).clamp(max=1)
        entropy = -(
            torch.special.xlogy(relative, relative)
            + torch.special.xlogy(1 - relative, 1 - relative)
        )
        unsure = entropy / math.log(2) > MOST_ENTROPY
        return (relative > 0.5).float().masked_fill(unsure, UNKNOWN)
    if rule == "posterior":
        probability = posterior_from_score(probability, exponent, detach_weight=detach_weight)
    return (probability > threshold).float()


def class_bars(probability: Tensor, highest: float = 0.5) -> Tensor:
    """Threshold per class that best separates its high scores from its low ones.

    Uses Otsu's criterion: among all splits of the class's scores into two groups, the one with the
    largest variance between the groups. The threshold is the middle of that gap, clamped to
    ``[LOWEST_BAR, highest]``, since a class absent from all images would be split too.

    Args:
        probability: ``[images, classes]``.
        highest: Upper limit of the thresholds.

    >>> class_bars(torch.tensor([[0.02, 0.6], [0.3, 0.05], [0.04, 0.04]]))
    tensor([0.1700, 0.3250])
    """
    ranked = probability.sort(dim=0).values
    count = len(ranked)
    if count < 2:
        return probability.new_full((probability.shape[1],), highest)
    below = torch.arange(1, count, dtype=ranked.dtype, device=ranked.device).unsqueeze(1)
    sums = ranked.cumsum(dim=0)
    low, high = sums[:-1] / below, (sums[-1] - sums[:-1]) / (count - below)
    best = (below * (count - below) * (high - low).square()).argmax(dim=0, keepdim=True)
    bars = (ranked.gather(0, best) + ranked.gather(0, best + 1)) / 2
    return bars.squeeze(0).clamp(min(LOWEST_BAR, highest), highest)


class StreamShares(Stateful):
    """Share of the images so far that are annotated as having each class."""

    stored = ("positives", "images")

    def __init__(self) -> None:
        self.positives = torch.zeros(0)
        self.images = 0

    def add(self, labels: Tensor) -> None:
        """Count the labels of an experience, ``[images, classes]``, NaN where unknown."""
        self.positives = grown(self.positives, labels.shape[1]) + (labels == 1).sum(dim=0)
        self.images += len(labels)

    def of(self, columns: slice) -> Tensor:
        """The shares of some classes."""
        return self.positives[columns] / max(self.images, 1)
