"""``rebll undo``: restore a learner to its state before the last lesson."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Undo the last lesson of a learner, for example: rebll undo city.rebll."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")


def run(arguments: argparse.Namespace) -> int:
    """Undo the last lesson and name it."""
    from rebll_avalanche.learner.held import changing
    from rebll_avalanche.words import printable

    with changing(arguments.learner) as learner:
        lesson = learner.undo()
    print(printable(f"undone: lesson {lesson.number}, {lesson.source}"))
    return 0
