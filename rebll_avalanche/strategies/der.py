"""DER++ for labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.memory.sampling import SamplingPolicy
from rebll_avalanche.plugins.der import DERPlusPlusPlugin
from rebll_avalanche.strategies.baselines import FineTuning


class DERPlusPlus(FineTuning):
    """Dark experience replay with labels: see :class:`~rebll_avalanche.plugins.DERPlusPlusPlugin`.

    Args:
        mem_size: Number of images kept.
        alpha: Weight of the stored logits.
        beta: Weight of the stored labels.
        policy: Which images stay in memory.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        mem_size: int = 40,
        alpha: float = 0.5,
        beta: float = 0.5,
        policy: str | SamplingPolicy = "reservoir",
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.der = DERPlusPlusPlugin(mem_size=mem_size, alpha=alpha, beta=beta, policy=policy)
        super().__init__(plugins=[*(plugins or []), self.der], **options)
