"""``rebll export``: the model of a run or a learner for programs without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from rebll_avalanche.commands.options import means_learner

HELP = """Write the model of a run, or a learner, as ONNX and check it against torch. Input "images":
[batch, 3, side, side] in [0, 1]; output "scores": a probability per class; the names are in the file's
metadata."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, and where to."""
    parser.add_argument("run", type=Path, help="a run folder or a .rebll file")
    parser.add_argument(
        "--onnx", type=Path, nargs="?", metavar="FILE",
        help="the file to write; RUN/model.onnx, or beside the learner, if not given",
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
            f"this model sees images in their own shape; the file takes squares of {trained.image_size} px, "
            "and scores of other shapes differ somewhat from those of `rebll predict`"
        )
    return 0
