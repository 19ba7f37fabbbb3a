"""From what a model says of an image in memory to the label that the image gets."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from rebll_avalanche.labels import UNKNOWN, grown
from rebll_avalanche.losses import posterior_from_score

Rule = Literal["score", "posterior", "prevalence", "soft", "adaptive"]
# Bits; an entry whose score is nearer to the bar of its class than this stays unknown.
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
        probability: Of each class in each image.
        rule: ``"score"``: present if the probability is above ``threshold``, as in the paper;
            ``"posterior"``: present if the posterior is above, of which the probability is the optimum
            under the asymmetric loss (:func:`~rebll_avalanche.losses.posterior_from_score`);
            ``"prevalence"``: of each class as many images as its share of the stream says, those with
            the highest probabilities; ``"soft"``: the probability itself is the label;
            ``"adaptive"``: each class has a bar of its own (:func:`class_bars`), and what is too near
            to it, by the entropy of the score relative to the bar, stays unknown (NaN).
        threshold: For the first two; for ``"adaptive"`` the highest bar.
        exponent: Of the asymmetric loss that the model was trained with, for ``"posterior"``.
        detach_weight: Likewise.
        shares: Of each class, for ``"prevalence"``.

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
            raise ValueError("relabelling by prevalence needs the classes' shares of the stream")
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
    """For each class the score that best separates its own high scores from its low ones.

    Best is Otsu's criterion: of all ways to cut the class's scores into two groups, the one with the
    largest variance between the groups; the bar lies in the middle of that gap, but not outside
    ``[LOWEST_BAR, highest]``, since a class that no image has would be cut somewhere too.

    Args:
        probability: ``[images, classes]``.
        highest: Upper limit of the bars.

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


class StreamShares:
    """How many of the images seen so far have each class, as far as they are annotated."""

    def __init__(self) -> None:
        self.positives = torch.zeros(0)
        self.images = 0

    def add(self, labels: Tensor) -> None:
        """Count the labels of an experience, ``[images, classes]``, NaN where unknown."""
        self.positives = grown(self.positives, labels.shape[1]) + (labels == 1).sum(dim=0)
        self.images += len(labels)

    def of(self, columns: slice) -> Tensor:
        """The share of some classes among all images."""
        return self.positives[columns] / max(self.images, 1)

    def state_dict(self) -> dict[str, Any]:
        """Both counts."""
        return {"positives": self.positives, "images": self.images}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self.positives, self.images = state["positives"].clone(), int(state["images"])
