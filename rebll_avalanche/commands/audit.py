"""``rebll audit``: labels that are probably wrong."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """List labels that are probably wrong, worst first, for example: rebll audit city.rebll --html
suspects.html --images photos. Each is judged by a model that had not learned from the picture."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    parser.add_argument(
        "-n", "--count", type=int, default=50, help="maximum number of labels (default: 50)"
    )
    parser.add_argument("--csv", type=Path, help="write the table there")
    parser.add_argument("--html", type=Path, help="write a page with the pictures there")
    parser.add_argument(
        "--images",
        type=Path,
        nargs="*",
        default=[],
        help="folders that may hold the original pictures; otherwise thumbnails are shown",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the labels that are probably wrong, and write them in other forms."""
    from rebll_avalanche.files import write_text
    from rebll_avalanche.learner import Learner
    from rebll_avalanche.learner.audit_page import as_csv, as_page, as_text
    from rebll_avalanche.words import printable

    learner = Learner.load(arguments.learner)
    suspects = learner.audit(arguments.count)
    if arguments.csv:
        write_text(arguments.csv, as_csv(suspects))
    if arguments.html:
        write_text(arguments.html, as_page(suspects, arguments.images, learner.thumbnail))
    print(printable(as_text(suspects)))
    return 0
