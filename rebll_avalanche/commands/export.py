"""``rebll export``: write a run's model as ONNX, for programs without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Write the model of a run as ONNX and check it against torch. Input "images": [batch, 3, side, side]
in [0, 1]; output "scores": a probability per class; the names are in the file's metadata."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", type=Path, help="a run folder")
    parser.add_argument(
        "--onnx", type=Path, nargs="?", metavar="FILE",
        help="the file to write; RUN/model.onnx if not given",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Export the model and compare it with torch."""
    from rebll_avalanche.inference.onnx_export import export_onnx
    from rebll_avalanche.inference.predictor import load_run

    file = arguments.onnx or arguments.run / "model.onnx"
    difference = export_onnx(load_run(arguments.run), file)
    print(f"{file} (largest difference to torch: {difference:.1e})")
    return 0
