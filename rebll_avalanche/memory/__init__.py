"""Memory: which images of earlier experiences are kept, with which labels, and who gave each label."""

from rebll_avalanche.memory.memory import Memory, Provenance

__all__ = ["Memory", "Provenance"]
