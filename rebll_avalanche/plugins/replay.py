"""Plain replay for methods whose memory is not their point."""

from __future__ import annotations

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.plugins.relabel import OnlineRelabelPlugin


def masked_replay(mem_size: int, weight: float) -> list[SupervisedPlugin]:
    """Binary cross-entropy on the labels that memory images came with; the rest stays unknown.

    Args:
        mem_size: Number of images kept; 0 gives no plugin at all.
        weight: Of the term.
    """
    if not mem_size:
        return []
    return [
        OnlineRelabelPlugin(mem_size=mem_size, lambda_er=weight, replay_loss="bce", relabel=False)
    ]
