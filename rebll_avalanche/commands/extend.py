"""``rebll extend``: train a finished run on new classes."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Train a finished run on new classes, for example: rebll extend runs/mine new_labels.csv.
Each row of the table has a file name and its labels. After an interruption, the same command continues."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("labels", type=Path, help="CSV file: file name, labels")
    parser.add_argument(
        "--images", type=Path, help="folder of the new images; by default the table's folder"
    )
    parser.add_argument(
        "--test-size",
        type=float,
        default=0.2,
        help="fraction of the new images to test on, if the table has no column 'split'",
    )
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        help="refuse broken new images, or skip them; by default as in the run",
    )


def run(arguments: argparse.Namespace) -> int:
    """Train, and print the results."""
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
