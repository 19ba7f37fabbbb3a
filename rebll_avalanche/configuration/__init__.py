"""Configuration: what can be decided about a run, how it is read, and which runs a recipe asks for.

Nothing here imports torch, so that help and error messages come at once.
"""
