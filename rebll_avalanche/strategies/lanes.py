"""MULTI-LANE: lanes of tokens beside a frozen transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.plugins.lanes import LanesPlugin
from rebll_avalanche.strategies.baselines import FineTuning


class MultiLane(FineTuning):
    """Learns each experience's labels in a lane of its own; its network is ``head="lanes"`` on a ViT.

    See :class:`~rebll_avalanche.models.lanes.LanedViT` and
    :class:`~rebll_avalanche.plugins.lanes.LanesPlugin`.

    Args:
        plugins: Further plugins, called before this method's own. They must have no loss on old classes
            that the stream does not annotate: in training, their logits are NaN.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self, *, plugins: Sequence[SupervisedPlugin] | None = None, **options: Any
    ) -> None:
        super().__init__(plugins=[*(plugins or []), LanesPlugin()], **options)
