"""``rebll forget``: remove pictures, classes or a lesson from a learner."""

from __future__ import annotations

import argparse
from pathlib import Path

from rebll_avalanche.words import many

HELP = """Forget pictures, classes or a lesson, as if they had never been learned, for example: rebll forget
city.rebll --classes car,bus or --lesson 2 or --images street.jpg. `rebll show` lists lessons and classes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--images", nargs="+", help="files, or names as in the tables")
    what.add_argument("--classes", help="names separated by commas")
    what.add_argument("--lesson", type=int, help="its number")


def run(arguments: argparse.Namespace) -> int:
    """Forget, and print what is left."""
    from rebll_avalanche.learner.held import changing

    classes = arguments.classes and [name.strip() for name in arguments.classes.split(",")]
    with changing(arguments.learner) as learner:
        learner.forget(images=arguments.images, classes=classes, lesson=arguments.lesson)
    pictures = len({key for each in learner.lessons for key in each.keys})
    print(
        f"left: {many(pictures, 'picture')}, {many(len(learner.class_names), 'class')}, "
        f"{many(len(learner.lessons), 'lesson')}"
    )
    return 0
