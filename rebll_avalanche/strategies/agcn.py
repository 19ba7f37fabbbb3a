"""AGCN: a label graph that grows, and distillation of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.plugins.agcn import AGCNPlugin
from rebll_avalanche.strategies.baselines import FineTuning


class AGCN(FineTuning):
    """See :class:`~rebll_avalanche.plugins.agcn.AGCNPlugin`; its network is ``head="agcn"``.

    Args:
        classification_weight: Weight of the classification once there is a teacher; distillation gets
            the rest.
        relationship_weight: Weight of the distillation of the graph's nodes.
        soft_labels: See the plugin.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        classification_weight: float = 0.15,
        relationship_weight: float = 1000.0,
        soft_labels: str = "softmax",
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.agcn = AGCNPlugin(
            classification_weight=classification_weight,
            relationship_weight=relationship_weight,
            soft_labels=soft_labels,
        )
        super().__init__(plugins=[*(plugins or []), self.agcn], **options)
