"""Checkpointing: save and restore the whole state of a strategy, so that a run resumes bit-identically."""
