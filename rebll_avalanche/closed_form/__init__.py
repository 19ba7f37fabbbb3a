"""Closed-form heads: ridge regression from sums, and its calibration; only the mathematics."""
