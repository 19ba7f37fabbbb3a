"""``rebll evaluate``: how right a learner is on a table of pictures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rebll_avalanche.commands.learn import add_table

HELP = """Say how right a learner is on pictures with labels, for example: rebll evaluate city.rebll
held_out.csv --images photos. Classes that it does not know are left out and named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which learner, which table."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    add_table(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate."""
    from rebll_avalanche.learner import Learner

    found = Learner.load(arguments.learner).evaluate(
        arguments.table, images=arguments.images, about=arguments.about
    )
    print(json.dumps(found.to_dict(), ensure_ascii=False) if arguments.json else found)
    return 0
