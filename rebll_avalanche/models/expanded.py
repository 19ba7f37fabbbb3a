"""A linear head on an expansion of the pooled features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rebll_avalanche.models.heads import GrowingLinear

# For smaller values the slope of a root is taken here, since it is infinite at 0.
STEEPEST = 1e-2


def signed_power(values: Tensor, power: float) -> Tensor:
    """``sign(x) |x|^power``, with a slope that stays finite at 0."""
    raised = values.detach().sign() * values.detach().abs().pow(power)
    if not values.requires_grad:
        return raised
    slope = power * values.detach().abs().clamp(min=STEEPEST).pow(power - 1)
    # The value is exactly the power; the gradient is that of the term before the difference.
    return raised + slope * (values - values.detach())


class ExpandedLinear(GrowingLinear):
    """A linear row per class on a fixed function of the feature map.

    Args:
        in_features: Channels of the feature map.
        power: Exponent of the pooled features (the sign is kept). Below 1 it reduces the influence of a
            few very active channels; 1 changes nothing.
        max_pool: Append the maximum over the map to its mean.
        random_features: Replace the pooled features by this many random ReLU features of them.
        seed: Seed of the random features.
    """

    projection: Tensor | None

    def __init__(
        self,
        in_features: int,
        *,
        power: float = 0.5,
        max_pool: bool = False,
        random_features: int = 0,
        seed: int = 0,
    ) -> None:
        pooled = in_features * (2 if max_pool else 1)
        super().__init__(random_features or pooled)
        self.power = power
        self.max_pool = max_pool
        projection = None
        if random_features:
            generator = torch.Generator().manual_seed(seed)
            draw = torch.rand(random_features, pooled, generator=generator)
            projection = (2 * draw - 1) / math.sqrt(pooled)  # as nn.Linear is initialised
        # Not saved, since the seed determines it.
        self.register_buffer("projection", projection, persistent=False)

    def expand(self, features: Tensor) -> Tensor:
        """The input vectors ``[batch, in_features]`` of the linear rows."""
        if features.ndim == 2:
            features = features[:, :, None, None]
        pooled = features.mean(dim=(2, 3))
        if self.max_pool:
            pooled = torch.cat([pooled, features.amax(dim=(2, 3))], dim=1)
        if self.power != 1:
            pooled = signed_power(pooled, self.power)
        if self.projection is not None:
            pooled = nn.functional.linear(pooled, self.projection).relu()
        return pooled

    def forward(self, features: Tensor) -> Tensor:
        """Logits of a feature map or of vectors."""
        return nn.functional.linear(self.expand(features), self.weight, self.bias)

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """Score of every position, as if its features filled the whole image."""
        batch, _, height, width = feature_map.shape
        positions = feature_map.permute(0, 2, 3, 1).flatten(0, 2)
        evidence = nn.functional.linear(self.expand(positions), self.weight)
        maps: Tensor = evidence.unflatten(0, (batch, height, width)).permute(0, 3, 1, 2)
        return maps


class RandomFeatures(ExpandedLinear):
    """A linear row per class on random ReLU features: the head of L3A.

    Args:
        in_features: Channels of the feature map.
        per_feature: Random features per channel; the authors use 4 for VOC and 2 for COCO (8192 and
            4096 on a network of 2048 channels).
        seed: Seed of the random features.
    """

    def __init__(self, in_features: int, *, per_feature: int = 4, seed: int = 0) -> None:
        super().__init__(
            in_features, power=1.0, random_features=per_feature * in_features, seed=seed
        )
