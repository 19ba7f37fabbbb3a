"""L2P: prompts for a frozen transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.plugins.l2p import L2PPlugin
from rebll_avalanche.plugins.replay import masked_replay
from rebll_avalanche.strategies.baselines import FineTuning


class L2P(FineTuning):
    """See :class:`~rebll_avalanche.plugins.l2p.L2PPlugin`; its network is ``head="l2p"`` on a ViT.

    Args:
        mem_size: Number of images kept for replay; their unknown labels stay masked. 0 is L2P without
            memory.
        replay_weight: Weight of the replayed labels' cross-entropy.
        pull_weight: See the plugin.
        grad_clip: See the plugin.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        mem_size: int = 0,
        replay_weight: float = 1.0,
        pull_weight: float = 0.5,
        grad_clip: float = 1.0,
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.l2p = L2PPlugin(pull_weight=pull_weight, grad_clip=grad_clip)
        replay = masked_replay(mem_size, replay_weight)
        super().__init__(plugins=[*(plugins or []), self.l2p, *replay], **options)
