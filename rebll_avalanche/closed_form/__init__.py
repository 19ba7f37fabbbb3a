"""Closed-form heads: ridge regression from sums, and its calibration; mathematics only."""
