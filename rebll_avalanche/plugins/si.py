"""Avalanche's Synaptic Intelligence, also on a CPU."""

from __future__ import annotations

from typing import Any

from avalanche.training.plugins import SynapticIntelligencePlugin

from rebll_avalanche.protocols import Strategy


class CopyingSIPlugin(SynapticIntelligencePlugin):
    r"""Avalanche's SI with real copies of the weights it compares.

    .. math:: L = L_{bce} + \frac{\lambda}{2} \sum_k \Omega_k (\theta_k - \theta^*_k)^2

    Avalanche notes weights with ``parameter.detach().cpu().flatten()``. That is a copy when the model
    is on a GPU; on a CPU it is a view, which moves along with the weights: every difference is zero,
    no parameter is ever important, and SI is fine-tuning.

    Args:
        si_lambda: Strength; Avalanche cuts importances off at 0.001, so it has to be large.
        eps: Added to the squared distance that importances are divided by.
    """

    def __init__(self, *, si_lambda: float = 1e3, eps: float = 1e-7) -> None:
        super().__init__(si_lambda, eps)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Note where the weights are as the experience begins."""
        super().before_training_exp(strategy, **kwargs)
        _copy(self.ewc_data[0])

    def before_training_iteration(self, strategy: Strategy, **kwargs: Any) -> None:
        """Note where the weights are before the step."""
        super().before_training_iteration(strategy, **kwargs)
        _copy(self.syn_data["old_theta"])


def _copy(noted: dict[str, Any]) -> None:
    for entry in noted.values():
        entry.data = entry.data.clone()
