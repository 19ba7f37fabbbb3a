"""Configuration: the settings of a run, how they are parsed, and the runs that a recipe defines.

Nothing here imports torch, so help and error messages appear immediately.
"""
