"""``rebll evaluate``: measure a learner on a table of pictures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rebll_avalanche.commands.learn import add_table

HELP = """Measure a learner on labelled pictures that it has not learned from, for example: rebll evaluate
city.rebll held_out.csv --images photos. Classes that it does not know are left out and listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    add_table(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Print the metrics."""
    from rebll_avalanche.learner import Learner

    found = Learner.load(arguments.learner).evaluate(
        arguments.table, images=arguments.images, about=arguments.about
    )
    print(json.dumps(found.to_dict(), ensure_ascii=False) if arguments.json else found)
    return 0
