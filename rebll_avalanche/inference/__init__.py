"""Inference: a finished run answers questions about pictures, here or as an ONNX file."""

from rebll_avalanche.inference.predictor import load_run

__all__ = ["load_run"]
