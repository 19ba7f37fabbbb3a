"""KRT: a token per experience, pseudo-labels, token distillation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.plugins.krt import KRTPlugin
from rebll_avalanche.strategies.baselines import FineTuning


class KRT(FineTuning):
    """See :class:`~rebll_avalanche.plugins.krt.KRTPlugin`; its network is ``head="cross_attention"``.

    Args:
        mem_size: Number of images kept for replay; 0 is KRT without memory.
        lambda_token: Weight of the distillation of tokens.
        labels_per_image: See the plugin.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        mem_size: int = 0,
        lambda_token: float = 80.0,
        labels_per_image: float = 1.4,
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.krt = KRTPlugin(
            mem_size=mem_size,
            lambda_token=lambda_token,
            labels_per_image=labels_per_image,
        )
        super().__init__(plugins=[*(plugins or []), self.krt], **options)
