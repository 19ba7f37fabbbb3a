"""Replay for methods that are not about memory."""

from __future__ import annotations

from collections.abc import Callable

from avalanche.training.plugins import ReplayPlugin
from avalanche.training.storage_policy import ExemplarsBuffer, ReservoirSamplingBuffer

from rebll_avalanche.arguments import check_number
from rebll_avalanche.plugins.relabel import OnlineRelabelPlugin
from rebll_avalanche.words import brief


def masked_replay(*, mem_size: int = 0, replay_weight: float = 1.0) -> OnlineRelabelPlugin | None:
    """Binary cross-entropy on the original labels of memory images; other labels stay unknown.

    Args:
        mem_size: Number of images kept for replay; 0 for no replay.
        replay_weight: Weight of the cross-entropy on replayed images.
    """
    if not mem_size:
        return None
    return OnlineRelabelPlugin(
        mem_size=mem_size, lambda_er=replay_weight, replay_loss="bce", relabel=False
    )


def balanced_replay(*, mem_size: int = 40) -> ReplayPlugin:
    """Avalanche's replay with its own experience-balanced memory.

    Args:
        mem_size: Number of images kept.
    """
    return ReplayPlugin(mem_size)


def buffer_replay(
    *, buffer: Callable[[int], ExemplarsBuffer] = ReservoirSamplingBuffer, mem_size: int = 40
) -> ReplayPlugin:
    """Avalanche's replay with a chosen buffer.

    Args:
        buffer: Makes an Avalanche storage policy from its size: ``ReservoirSamplingBuffer``, or
            ``partial(PolicyBuffer, policy="prs")``.
        mem_size: Number of images kept.
    """
    if not callable(buffer):
        raise TypeError(f"buffer must make an Avalanche storage policy, got {brief(buffer)}")
    check_number("mem_size", mem_size, 0, whole=True)
    return ReplayPlugin(mem_size, storage_policy=buffer(mem_size))
