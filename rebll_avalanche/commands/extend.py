"""``rebll extend``: a finished run learns new classes from new images."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Let a finished run learn new classes, for example: rebll extend runs/mine new_labels.csv.
Each row of the table has a file name and its labels. Stopped, the same command goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, which images."""
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("labels", type=Path, help="CSV file: file name, labels")
    parser.add_argument(
        "--images", type=Path, help="folder of the new images; by default that of the table"
    )
    parser.add_argument(
        "--test-size",
        type=float,
        default=0.2,
        help="share of the new images to test on, if the table has no column 'split'",
    )
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        help="refuse broken new images, or go on without these; by default as the run itself",
    )


def run(arguments: argparse.Namespace) -> int:
    """Learn, and say what came out."""
    from rebll_avalanche.commands.run import print_records
    from rebll_avalanche.process import stop_on_terminate

    stop_on_terminate()
    from rebll_avalanche.running.extend import extend_run

    images = arguments.images or arguments.labels.parent
    records = extend_run(
        arguments.run,
        arguments.labels,
        images,
        test_size=arguments.test_size,
        on_error=arguments.on_error,
    )
    print_records(arguments.run, records)
    return 0
