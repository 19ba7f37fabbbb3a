"""``rebll suggest``: which pictures to label next."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Say which pictures a learner is least sure of, and what to look for in these, for example:
rebll suggest city.rebll photos/new -n 20."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which learner, which pictures."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    parser.add_argument("images", nargs="+", help="image files or folders")
    parser.add_argument("-n", "--count", type=int, default=20, help="at most so many")


def run(arguments: argparse.Namespace) -> int:
    """Suggest; 1 if a picture could not be read."""
    from rebll_avalanche.commands.predict import Problems, image_files
    from rebll_avalanche.learner import Learner
    from rebll_avalanche.pictures import picture_problem
    from rebll_avalanche.words import printable

    problems = Problems()
    usable = []
    for path in image_files(arguments.images, (), problems):
        if problem := picture_problem(str(path)):
            problems.report(f"cannot read {path}: {problem}")
        else:
            usable.append(str(path))
    if usable:
        for found in Learner.load(arguments.learner).suggest(usable, arguments.count):
            print(
                printable(
                    f"{found.picture}: {', '.join(found.classes)} ({found.uncertainty:.2f} bits)"
                )
            )
    return 1 if problems.count else 0
