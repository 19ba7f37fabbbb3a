"""Replay memory: images of earlier experiences, their labels, and the source of each label."""

from rebll_avalanche.memory.memory import Memory, Provenance

__all__ = ["Memory", "Provenance"]
