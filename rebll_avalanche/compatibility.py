"""Refuses parts of Avalanche that cannot learn from label vectors, before training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rebll_avalanche.labels import annotated, label_matrix
from rebll_avalanche.protocols import Strategy

_REPLAY = "the method 'er-reservoir', or ReplayPlugin with storage_policy=PolicyBuffer(mem_size)"
# Class names, since importing all classes would take seconds, and what to use instead.
_ONE_CLASS_PER_IMAGE = {
    "LwFPlugin": "SigmoidLwFPlugin, the method 'lwf'",
    "GDumbPlugin": _REPLAY,
    "MIRPlugin": _REPLAY,
    "BiCPlugin": _REPLAY,
    "GSS_greedyPlugin": _REPLAY,
    "ClassBalancedBuffer": "PolicyBuffer",
    "CWRStarPlugin": "the method 'fine-tuning'",
    "DER": "the method 'der++'",
    "ER_ACE": _REPLAY,
    "ER_AML": _REPLAY,
    "ICaRL": "the method 'er-prs' with herding: PolicyBuffer(mem_size, policy='herding')",
    "SCR": _REPLAY,
    "MultiHeadClassifier": "build_model(...), whose head grows, or IncrementalClassifier",
}
# Plugins that need a loss in every batch, or divide by it.
_NEED_LABELS = ("GEMPlugin", "AGEMPlugin", "MASPlugin")


def check_compatibility(strategy: Strategy) -> None:
    """Refuse parts of a strategy that expect one class, or a task, per image.

    Raises:
        ValueError: Naming the part and what to use instead.
    """
    for part in _parts(strategy):
        name = type(part).__name__
        if name in _ONE_CLASS_PER_IMAGE and type(part).__module__.startswith("avalanche."):
            raise ValueError(
                f"Avalanche's {name} expects one class or one task per image and cannot learn from label "
                f"vectors; use {_ONE_CLASS_PER_IMAGE[name]}"
            )


def check_labelled(strategy: Strategy) -> None:
    """Refuse an experience without labels if a plugin needs a loss in every batch.

    Raises:
        ValueError: Naming the plugin and the experience.
    """
    if bool(annotated(label_matrix(strategy.experience.dataset)).any()):
        return
    for plugin in strategy.plugins:
        names = {kind.__name__ for kind in type(plugin).__mro__}
        if names & set(_NEED_LABELS):
            raise ValueError(
                f"{type(plugin).__name__} needs a loss in every batch, but experience "
                f"{strategy.experience.current_experience} has no labels; leave it out, or use "
                "another method"
            )


def _parts(strategy: Strategy) -> Iterator[Any]:
    yield strategy
    yield from strategy.model.modules()
    for plugin in strategy.plugins:
        yield plugin
        yield getattr(plugin, "storage_policy", None)
