"""``rebll undo``: a learner as before its last lesson."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Undo the last lesson of a learner, for example: rebll undo city.rebll."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which learner."""
    parser.add_argument("learner", type=Path, help="a .rebll file")


def run(arguments: argparse.Namespace) -> int:
    """Undo."""
    from rebll_avalanche.learner.held import changing
    from rebll_avalanche.words import printable

    with changing(arguments.learner) as learner:
        lesson = learner.undo()
    print(printable(f"undone: lesson {lesson.number}, {lesson.source}"))
    return 0
