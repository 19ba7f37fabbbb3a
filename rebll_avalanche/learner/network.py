"""A frozen backbone and what was learned from its vectors, as one network for pictures."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from rebll_avalanche.benchmarks.features import FrozenFeatures
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.models.heads import GrowingLinear


class VectorsOfMaps(nn.Module):
    """What learned from vectors, on the mean over a backbone's last map.

    Args:
        maps: The frozen backbone.
        learned: Takes vectors.
    """

    def __init__(self, maps: nn.Module, learned: nn.Module) -> None:
        super().__init__()
        self.maps = maps
        self.learned = learned

    def forward(self, x: Tensor) -> Tensor:
        """Vectors."""
        vectors: Tensor = self.learned(self.maps(x).mean(dim=(2, 3)))
        return vectors


def on_backbone(features: FrozenFeatures, learned: MultiLabelModel) -> MultiLabelModel:
    """A network for pictures.

    Args:
        features: Made the vectors.
        learned: Takes vectors.
    """
    model = copy.copy(features.model)
    model._modules = dict(features.model._modules)
    if not isinstance(learned.head, GrowingLinear):
        model.backbone = VectorsOfMaps(model.backbone, learned.backbone)
    # Otherwise the head takes the mean itself, and the map before it can be shown.
    model.head = learned.head
    return model.eval()
