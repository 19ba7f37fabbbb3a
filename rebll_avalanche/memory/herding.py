"""Herding: memory images whose features represent all images of their classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.data import DataLoader

from rebll_avalanche.labels import grown
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.stateful import Stateful


class Herding(Stateful):
    """Keeps, per class, the images whose mean feature is closest to the mean of the whole class.

    This is iCaRL's herding for images with several labels: the class with the fewest images so far is
    next, and gets the image that brings its mean closest to that of all its images in the stream; the
    image counts for every class it has. So memory is as balanced as the labels allow. Features are
    those of the network right after it learned the image's experience; they are not recomputed.
    """

    wants_features = True
    stored = ("features", "sums", "counts")

    def __init__(self) -> None:
        self.features = torch.empty(0, 0)
        self.sums = torch.empty(0, 0)
        self.counts = torch.empty(0)

    def select(
        self, kept: Tensor, arriving: Tensor, capacity: int, features: Tensor | None = None
    ) -> Tensor:
        """Choose rows; ``features`` are those of the arriving images, ``[n, channels]``."""
        if features is None or len(features) != len(arriving):
            raise ValueError("herding needs features=..., the features of the arriving images")
        if not len(self.counts):
            self.features = self.sums = features.new_empty(0, features.shape[1])
            self.counts = features.new_empty(0)
        if len(kept) != len(self.features):
            raise ValueError(
                f"memory has {len(kept)} rows, but {len(self.features)} were kept last time"
            )
        positive = torch.cat([kept, arriving]).eq(1).to(features)
        self.sums = grown(self.sums, positive.shape[1])
        self.counts = grown(self.counts, positive.shape[1])
        arrived = positive[len(kept) :]
        self.sums += arrived.T @ features
        self.counts += arrived.sum(dim=0)
        everything = torch.cat([self.features, features])
        chosen = self._herd(positive, everything, min(capacity, len(everything)))
        self.features = everything[chosen]
        return chosen

    def _herd(self, positive: Tensor, features: Tensor, wanted: int) -> Tensor:
        means = self.sums / self.counts.clamp(min=1).unsqueeze(1)
        left = positive.clone()
        sums, counts = torch.zeros_like(self.sums), torch.zeros_like(self.counts)
        chosen: list[int] = []
        while len(chosen) < wanted:
            open_classes = left.any(dim=0)
            if not open_classes.any():  # the remaining images have no label: any will do
                rest = sorted(set(range(len(features))) - set(chosen))
                chosen += rest[: wanted - len(chosen)]
                break
            column = int(counts.masked_fill(~open_classes, torch.inf).argmin())
            rows = left[:, column].nonzero().flatten()
            after = (sums[column] + features[rows]) / (counts[column] + 1)
            best = int(rows[(after - means[column]).square().sum(dim=1).argmin()])
            sums += positive[best].unsqueeze(1) * features[best]
            counts += positive[best]
            left[best] = 0
            chosen.append(best)
        return torch.tensor(sorted(chosen), dtype=torch.long)


@torch.no_grad()
def described(strategy: Strategy) -> Tensor:
    """A unit-length feature vector per image of the experience that a strategy has just learned."""
    model: Any = strategy.model
    training = model.training
    if not hasattr(model, "features"):
        raise ValueError(
            f"herding needs a model with a method `features`, {type(model).__name__} has none; "
            "make one with build_model(...), or use another policy"
        )
    model.eval()
    loader = DataLoader(strategy.experience.dataset.eval(), batch_size=strategy.eval_mb_size)
    vectors = []
    for batch in loader:
        found = model.features(batch[0].to(strategy.device)).float()
        vectors.append(found.mean(dim=(2, 3)) if found.ndim == 4 else found)
    model.train(training)
    return normalize(torch.cat(vectors).cpu(), dim=1)
