"""PODNet: distillation of pooled feature maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from rebll_avalanche.models.stages import FeatureTap
from rebll_avalanche.plugins.options import check_not_negative
from rebll_avalanche.plugins.teacher import TaughtPlugin
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import annotated_classes, class_range


def spatial_loss(maps: Sequence[Tensor], teacher_maps: Sequence[Tensor]) -> Tensor:
    """POD-spatial: distance of squared feature maps pooled along their width and their height.

    Each map is squared, summed over its width and over its height; both sums are concatenated and
    scaled to length 1 per image. The loss is the Euclidean distance between student and teacher,
    averaged over images and maps.

    Args:
        maps: The student's maps, ``[batch, channels, h, w]`` each.
        teacher_maps: The teacher's maps.
    """

    def pooled(feature_map: Tensor) -> Tensor:
        energy = feature_map.square()
        both = torch.cat([energy.sum(dim=3).flatten(1), energy.sum(dim=2).flatten(1)], dim=1)
        return normalize(both, dim=1)

    distances = [
        torch.linalg.vector_norm(pooled(mine) - pooled(other), dim=1).mean()
        for mine, other in zip(maps, teacher_maps, strict=True)
    ]
    return torch.stack(distances).mean()


def flat_loss(embedding: Tensor, teacher_embedding: Tensor) -> Tensor:
    """POD-flat: one minus the cosine between the pooled embeddings, averaged over images."""
    return (1 - cosine_similarity(embedding, teacher_embedding, dim=1)).mean()


class PODPlugin(TaughtPlugin):
    r"""Distils the previous model's pooled intermediate and final features.

    .. math:: L = L_{bce} + \sqrt{|C^{1:t}| / |C^t|}
        \left( \lambda_{spatial} L_{spatial} + \lambda_{flat} L_{flat} \right)

    ``C^t`` are the classes annotated in experience t. The distillation covers every image of the batch,
    including replayed ones. Defaults are PODNet's for CIFAR-100. PODNet's own classifier (several cosine
    proxies per class, a margin over a softmax) assumes mutually exclusive labels, so the model's usual
    head is used instead. A network without intermediate feature maps gets the flat part only.

    Args:
        spatial_weight: Weight of :func:`spatial_loss`.
        flat_weight: Weight of :func:`flat_loss`.
    """

    def __init__(self, *, spatial_weight: float = 3.0, flat_weight: float = 1.0) -> None:
        super().__init__()
        check_not_negative(spatial_weight=spatial_weight, flat_weight=flat_weight)
        self.spatial_weight = spatial_weight
        self.flat_weight = flat_weight
        self.terms = LossTerms()
        self._tap = FeatureTap()
        self._features: tuple[list[Tensor], Tensor] | None = None
        self._scale = 0.0

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the network, and share one teacher with the other plugins."""
        if not hasattr(strategy.model, "backbone"):
            raise ValueError(
                f"{type(strategy.model).__name__} has no 'backbone' that computes feature maps; "
                "make it with build_model(...), or wrap yours in MultiLabelModel(backbone, head)"
            )
        super().before_training(strategy, **kwargs)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Weight the distillation by the ratio of seen to annotated classes."""
        super().before_training_exp(strategy, **kwargs)
        _, seen = class_range(strategy.experience)
        size = max(len(annotated_classes(strategy.experience)), 1)
        self._scale = math.sqrt(seen / size)

    def before_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Hook the student's feature maps, so that no second forward pass is needed."""
        if self.distils:
            self._tap.watch(strategy.model)

    def after_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Remove the hooks."""
        self._features = self._tap.features() if self.distils else None

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add the distillation."""
        features, self._features = self._features, None
        if features is None or self.teacher.model is None:
            return
        maps, embedding = features
        self._tap.watch(self.teacher.model)
        with torch.no_grad():
            self.teacher.model(strategy.mb_x)
        teacher_maps, teacher_embedding = self._tap.features()
        flat = flat_loss(embedding, teacher_embedding)
        loss = self.flat_weight * flat
        self.terms.record("flat", flat)
        if teacher_maps:
            spatial = spatial_loss(maps, teacher_maps)
            loss = loss + self.spatial_weight * spatial
            self.terms.record("spatial", spatial)
        strategy.loss += self._scale * loss
