"""PODNet for labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import ReplayPlugin, SupervisedPlugin

from rebll_avalanche.plugins.podnet import PODPlugin
from rebll_avalanche.strategies.baselines import FineTuning


class PODNet(FineTuning):
    """Pooled-output distillation and replay: see :class:`~rebll_avalanche.plugins.PODPlugin`.

    Memory is Avalanche's experience-balanced one, as in ER, where the original herds. Replayed images are
    part of the batch and are distilled like the others.

    Args:
        mem_size: Number of images kept; 0 leaves the distillation alone.
        spatial_weight: Of the distillation of feature maps.
        flat_weight: Of the distillation of the embedding.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        mem_size: int = 40,
        spatial_weight: float = 3.0,
        flat_weight: float = 1.0,
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.pod = PODPlugin(spatial_weight=spatial_weight, flat_weight=flat_weight)
        super().__init__(plugins=[*(plugins or []), ReplayPlugin(mem_size), self.pod], **options)
