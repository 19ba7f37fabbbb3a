"""Which parts of a strategy a checkpoint cannot hold: Avalanche's plugins do not give their state."""

from __future__ import annotations

from typing import Any

# Nothing in them outlives an experience, or it is saved apart (the clock, the metrics).
STATELESS = ("Clock", "EvaluationPlugin", "PeriodicEval", "LRSchedulerPlugin")
# Avalanche's strategies that are nothing but their plugins.
WRAPPERS = "avalanche.training.supervised.strategy_wrappers"


def unsaved(strategy: Any) -> list[str]:
    """Names of the strategy's parts whose state would be lost; such a run starts over when stopped."""
    lost = []
    home = type(strategy).__module__
    if home.startswith("avalanche.") and home != WRAPPERS and "templates" not in home:
        lost.append(type(strategy).__name__)
    for plugin in strategy.plugins:
        own = type(plugin).__module__.startswith("rebll_avalanche.")
        if not own and not hasattr(plugin, "state_dict") and type(plugin).__name__ not in STATELESS:
            lost.append(type(plugin).__name__)
    return lost
