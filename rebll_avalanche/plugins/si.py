"""Avalanche's Synaptic Intelligence, fixed for CPUs."""

from __future__ import annotations

from typing import Any

from avalanche.training.plugins import SynapticIntelligencePlugin

from rebll_avalanche.plugins.networks import check_learnable
from rebll_avalanche.plugins.options import check_not_negative, check_positive
from rebll_avalanche.protocols import Strategy


class CopyingSIPlugin(SynapticIntelligencePlugin):
    r"""Avalanche's SI, comparing against real copies of the weights.

    .. math:: L = L_{bce} + \frac{\lambda}{2} \sum_k \Omega_k (\theta_k - \theta^*_k)^2

    Avalanche records weights with ``parameter.detach().cpu().flatten()``. That is a copy if the model
    is on a GPU; on a CPU it is a view that changes with the weights: every difference is zero, no
    parameter ever becomes important, and SI equals fine-tuning.

    Args:
        si_lambda: Strength; must be large, since Avalanche clips importances at 0.001.
        eps: Added to the squared distance by which importances are divided.
    """

    def __init__(self, *, si_lambda: float = 1e3, eps: float = 1e-7) -> None:
        check_not_negative(si_lambda=si_lambda)
        check_positive(eps=eps)
        super().__init__(si_lambda, eps)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the network, and record its weights at the start of the experience."""
        check_learnable(strategy)
        super().before_training_exp(strategy, **kwargs)
        _copy(self.ewc_data[0])

    def before_training_iteration(self, strategy: Strategy, **kwargs: Any) -> None:
        """Record the weights before the step."""
        super().before_training_iteration(strategy, **kwargs)
        _copy(self.syn_data["old_theta"])


def _copy(noted: dict[str, Any]) -> None:
    for entry in noted.values():
        entry.data = entry.data.clone()
