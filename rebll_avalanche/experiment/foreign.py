"""Which parts of a strategy a checkpoint cannot hold: Avalanche's plugins do not give their state."""

from __future__ import annotations

from typing import Any

# Nothing in them outlives an experience, or it is saved apart (the clock, the metrics).
STATELESS = ("Clock", "EvaluationPlugin", "PeriodicEval")
# Avalanche's strategies that are nothing but their plugins, and what plugins are made of.
WRAPPERS = ("avalanche.training.supervised.strategy_wrappers", "avalanche.training.templates")
BASES = (
    "avalanche.core",
    "avalanche.training.plugins.strategy_plugin",
    "avalanche.training.templates",
)


def unsaved(strategy: Any) -> list[str]:
    """Names of the strategy's parts whose state would be lost; such a run starts over when stopped."""
    lost = []
    home = type(strategy).__module__
    if home.startswith("avalanche.") and not home.startswith(WRAPPERS):
        lost.append(type(strategy).__name__)
    for plugin in strategy.plugins:
        name = type(plugin).__name__
        if name not in STATELESS and not hasattr(plugin, "state_dict") and _foreign(type(plugin)):
            lost.append(name)
    return lost


def _foreign(kind: type) -> bool:
    """Whether a class, or something it inherits from, is not of this package."""
    return any(
        not base.__module__.startswith(("rebll_avalanche.", "builtins", "typing", "abc", *BASES))
        for base in kind.__mro__
    )
