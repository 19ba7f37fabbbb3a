"""``rebll audit``: labels that are probably wrong."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """List labels that are probably wrong, worst first, for example: rebll audit city.rebll --html
suspects.html --images photos. Each is judged by a model that had not learned from the picture. To correct
them: rebll audit city.rebll --csv doubts.csv, change the column 'present' (1 or 0) where a label is wrong,
then rebll correct city.rebll doubts.csv."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    parser.add_argument(
        "-n", "--count", type=int, default=50, help="maximum number of labels (default: 50)"
    )
    parser.add_argument("--csv", type=Path, help="write a table there, for rebll correct")
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
    from shlex import quote

    from rebll_avalanche.files import write_text
    from rebll_avalanche.learner import Learner
    from rebll_avalanche.learner.audit_page import as_csv, as_page, as_text
    from rebll_avalanche.words import printable

    learner = Learner.load(arguments.learner)
    suspects = learner.audit(arguments.count)
    if arguments.csv:
        write_text(arguments.csv, as_csv(suspects, learner.lessons))
    if arguments.html:
        write_text(arguments.html, as_page(suspects, arguments.images, learner.thumbnail))
    print(printable(as_text(suspects)))
    if arguments.csv and suspects:
        print(
            f"To correct labels: change 'present' (1 or 0) in {arguments.csv} where a label is wrong; rows "
            f"that you leave as they are change nothing. Then: rebll correct "
            f"{quote(str(arguments.learner))} {quote(str(arguments.csv))}"
        )
    return 0
