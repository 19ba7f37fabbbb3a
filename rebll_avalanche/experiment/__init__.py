"""Experiments: the plain loop, runs that can be stopped and continued, result files, tables."""
