"""``rebll correct``: correct labels that a learner was taught."""

from __future__ import annotations

import argparse
from pathlib import Path

from rebll_avalanche.commands.learn import add_table

HELP = """Correct labels, for example: rebll correct city.rebll corrections.csv. Pictures are recognised by
content, or by name if the files are gone. Labels that the table does not annotate stay unchanged. The table
that rebll audit --csv writes will do, with 'present' changed where a label is wrong."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    add_table(parser)


def run(arguments: argparse.Namespace) -> int:
    """Correct the labels and print what has changed."""
    from rebll_avalanche.learner.held import changing

    with changing(arguments.learner) as learner:
        found = learner.correct(arguments.table, images=arguments.images, about=arguments.about)
    print(found)
    return 0
