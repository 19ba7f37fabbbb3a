"""``rebll correct``: other labels for pictures that a learner has learned."""

from __future__ import annotations

import argparse
from pathlib import Path

from rebll_avalanche.commands.learn import add_table

HELP = """Correct labels, for example: rebll correct city.rebll corrections.csv. Pictures are known again by
their content, or by their name where they are gone; labels that the table says nothing about stay."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which learner, which table."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    add_table(parser)


def run(arguments: argparse.Namespace) -> int:
    """Correct."""
    from rebll_avalanche.learner.held import changing

    with changing(arguments.learner) as learner:
        found = learner.correct(arguments.table, images=arguments.images, about=arguments.about)
    print(found)
    return 0
