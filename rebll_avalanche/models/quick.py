"""Replace layers of a network by the same ones with faster operators."""

from __future__ import annotations

from torch import nn

from rebll_avalanche.models.depthwise import DepthwiseConv2d, gains_depthwise
from rebll_avalanche.models.linear import QuickLinear, gains_linear


def quicken(network: nn.Module) -> None:
    """Replace the layers that gain from it; names, parameters and state dict stay."""
    for name, layer in list(network.named_modules()):
        if isinstance(layer, nn.Conv2d) and gains_depthwise(layer):
            put(network, name, DepthwiseConv2d(layer))
        elif isinstance(layer, nn.Linear) and gains_linear(layer):
            put(network, name, QuickLinear(layer))


def put(network: nn.Module, name: str, layer: nn.Module) -> None:
    """Replace one module by its name."""
    parent, _, child = name.rpartition(".")
    setattr(network.get_submodule(parent), child, layer)
