"""Networks with growing heads: ``model(x) -> [batch, classes learned so far]``."""

from rebll_avalanche.models.build import HEADS, build_model
from rebll_avalanche.models.heads import GrowingHead, GrowingLinear
from rebll_avalanche.models.network import MultiLabelModel

__all__ = ["HEADS", "GrowingHead", "GrowingLinear", "MultiLabelModel", "build_model"]
