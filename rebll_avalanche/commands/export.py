"""``rebll export``: write the model of a run or a learner as ONNX, for programs without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from rebll_avalanche.commands.options import means_learner

HELP = """Write the model of a run, or a learner, as ONNX and check it against torch. Input "images":
[batch, 3, side, side] in [0, 1]; output "scores": a probability per class; the names are in the file's
metadata."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", type=Path, help="a run folder or a .rebll file")
    parser.add_argument(
        "--onnx", type=Path, nargs="?", metavar="FILE",
        help="the file to write (default: RUN/model.onnx, or beside the learner)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Export the model and compare it with torch."""
    from rebll_avalanche.inference.onnx_export import export_onnx

    given: Path = arguments.run
    if means_learner(given):
        from rebll_avalanche.learner import Learner

        trained, file = Learner.load(given).trained_model(given.name), given.with_suffix(".onnx")
    else:
        from rebll_avalanche.inference.predictor import load_run

        trained, file = load_run(given), given / "model.onnx"
    file = arguments.onnx or file
    difference = export_onnx(trained, file)
    print(f"{file} (largest difference to torch: {difference:.1e})")
    if trained.keep_aspect:
        print(
            f"the model keeps the aspect ratio of images; the file takes squares of {trained.image_size} px, "
            "so scores of other shapes differ slightly from those of `rebll predict`"
        )
    return 0
