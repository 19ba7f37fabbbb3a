"""CSC: graph network, distillation, and entropy of the old classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.plugins.csc import CSCPlugin
from rebll_avalanche.plugins.replay import masked_replay
from rebll_avalanche.strategies.baselines import FineTuning


class CSC(FineTuning):
    """See :class:`~rebll_avalanche.plugins.csc.CSCPlugin`; its network is ``head="gcn"``.

    Args:
        mem_size: Number of images kept for replay; their unknown labels stay masked. 0 is CSC without
            memory.
        replay_weight: Weight of the replayed labels' cross-entropy.
        classification_weight: Weight of the classification once there is a teacher; distillation gets
            the rest.
        entropy_weight: Weight of the entropy.
        entropy_classes: See the plugin.
        entropy_reduction: See the plugin.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        mem_size: int = 0,
        replay_weight: float = 0.5,
        classification_weight: float = 0.15,
        entropy_weight: float = 0.04,
        entropy_classes: str = "old",
        entropy_reduction: str = "class_sum",
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.csc = CSCPlugin(
            classification_weight=classification_weight,
            entropy_weight=entropy_weight,
            entropy_classes=entropy_classes,
            entropy_reduction=entropy_reduction,
        )
        replay = masked_replay(mem_size, replay_weight)
        super().__init__(plugins=[*(plugins or []), self.csc, *replay], **options)
