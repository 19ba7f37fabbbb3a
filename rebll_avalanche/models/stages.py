"""Intermediate feature maps of a backbone, recorded during its forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


def stage_modules(backbone: nn.Module, last: int = 4) -> list[nn.Module]:
    """The final modules of a backbone's last stages, from fine to coarse.

    Args:
        backbone: A module with a method ``stages()``, or around a timm network; others have no stages.
        last: Maximum number of stages.
    """
    stages = getattr(backbone, "stages", None)
    if callable(stages):
        modules: list[nn.Module] = stages()
        return modules[-last:]
    network = getattr(backbone, "network", None)
    names = [entry["module"] for entry in getattr(network, "feature_info", ())]
    return [network.get_submodule(name) for name in names if name][-last:] if network else []


class FeatureTap:
    """Keeps the feature maps of a model's last forward pass while its hooks are in place.

    Attributes:
        maps: Outputs of the stages, ``[batch, channels, h, w]`` each; transformers have none.
        embedding: The last feature map, averaged over positions: ``[batch, channels]``.
    """

    def __init__(self) -> None:
        self.maps: list[Tensor] = []
        self.embedding: Tensor | None = None
        self._handles: list[Any] = []

    def open(self, model: Any) -> None:
        """Add hooks to ``model.backbone``."""
        self.close()
        self.maps, self.embedding = [], None
        for module in stage_modules(model.backbone):
            self._handles.append(module.register_forward_hook(self._keep_map))
        self._handles.append(model.backbone.register_forward_hook(self._keep_embedding))

    def close(self) -> None:
        """Remove the hooks, which must not be copied with the model."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _keep_map(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        if output.ndim == 4:
            self.maps.append(output)

    def _keep_embedding(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        self.embedding = output.mean(dim=(2, 3)) if output.ndim == 4 else output


@contextmanager
def tapped(model: Any) -> Iterator[FeatureTap]:
    """Record a model's feature maps inside a ``with`` block."""
    tap = FeatureTap()
    tap.open(model)
    try:
        yield tap
    finally:
        tap.close()
