"""``rebll suggest``: which pictures to label next."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """List the pictures that a learner is least certain about, and the classes to check in each, for
example: rebll suggest city.rebll photos/new -n 20."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    parser.add_argument("images", nargs="+", help="image files or folders")
    parser.add_argument("-n", "--count", type=int, default=20, help="maximum number (default: 20)")


def run(arguments: argparse.Namespace) -> int:
    """Print the suggestions; return 1 if a picture could not be read."""
    from rebll_avalanche.commands.predict import Problems, image_files
    from rebll_avalanche.learner import Learner
    from rebll_avalanche.pictures import picture_problem
    from rebll_avalanche.words import printable

    learner, problems, usable = Learner.load(arguments.learner), Problems(), []
    for path in image_files(arguments.images, (), problems):
        if problem := picture_problem(str(path)):
            problems.report(f"cannot read {path}: {problem}")
        else:
            usable.append(str(path))
    for found in learner.suggest(usable, arguments.count) if usable else ():
        classes = ", ".join(found.classes)
        print(printable(f"{found.picture}: {classes} ({found.uncertainty:.2f} bits)"))
    return 1 if problems.count else 0
