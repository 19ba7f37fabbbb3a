"""Inference with the model of a finished run, in Python or as an ONNX file."""

from rebll_avalanche.inference.predictor import load_run

__all__ = ["load_run"]
