"""Learning without forgetting, for labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.plugins.lwf import SigmoidLwFPlugin, SoftmaxLwFPlugin
from rebll_avalanche.strategies.baselines import FineTuning


class SigmoidLwF(FineTuning):
    r"""LwF with a sigmoid per class: :math:`L = L_{bce}(C^t) + \alpha L_{kd}(C^{1:t-1})`.

    Args:
        alpha: Weight of the distillation; LwF's own default.
        temperature: Of student and teacher; LwF's own default.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    plugin: type[SupervisedPlugin] = SigmoidLwFPlugin

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        temperature: float = 2.0,
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.lwf = self.plugin(alpha=alpha, temperature=temperature)
        super().__init__(plugins=[*(plugins or []), self.lwf], **options)


class SoftmaxLwF(SigmoidLwF):
    """Avalanche's own LwF loss on labels, for comparison: see :class:`SoftmaxLwFPlugin`."""

    plugin = SoftmaxLwFPlugin
