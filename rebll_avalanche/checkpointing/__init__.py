"""Checkpointing: the whole state of a strategy on disk, and back, so that a run resumes to the bit."""
