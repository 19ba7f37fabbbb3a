"""``rebll learn``: one more lesson for a learner in a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebll_avalanche.learner import Learner

HELP = """Teach a learner from a table of pictures, for example: rebll learn city.rebll march.csv --images
photos/march. The file is made if it is not there; the pictures are not needed again. Stopped, the file is as
it was before."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which file, which table; and, for a new file, what kind of learner."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    add_lesson(parser)
    new = parser.add_argument_group("for a file that is not there yet")
    new.add_argument("--method", help="any that can go on without its old data; closed-form")
    new.add_argument("--backbone", help="a timm name; tf_efficientnet_lite0")
    new.add_argument("--pretrained", help="pypi, timm, or a file")
    new.add_argument(
        "--image-size",
        type=int,
        help="shorter side in pixels; 288, or 224 if the backbone is trained",
    )
    new.add_argument(
        "--precision", type=float, help="thresholds keep this precision, such as 0.9; else best F1"
    )
    new.add_argument(
        "--train-backbone",
        action="store_const",
        const=False,
        dest="frozen",
        help="train the whole network from pictures, which memory then holds",
    )
    new.add_argument("--mem-size", help="pictures in memory, or '20 MB', for methods that have one")
    new.add_argument("--epochs", type=int, help="for methods that train")
    new.add_argument("--seed", type=int)
    new.add_argument(
        "--thumbnails",
        help="small copies of pictures kept for people to see: a number, or '16 MB'; 0 for none",
    )


def add_lesson(parser: argparse.ArgumentParser) -> None:
    """The table, and what to do with pictures that cannot be read."""
    add_table(parser)
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="refuse a table with unreadable pictures, or go on without these",
    )


def add_table(parser: argparse.ArgumentParser) -> None:
    """The table, where its pictures are, and what it speaks about."""
    parser.add_argument("table", type=Path, help="CSV, COCO or Label Studio JSON, or a folder")
    parser.add_argument("--images", type=Path, help="folder of the pictures; that of the table")
    parser.add_argument(
        "--about",
        type=lambda text: [name.strip() for name in text.split(",")],
        help="the classes that the table speaks about, separated by commas; those that it names",
    )


def run(arguments: argparse.Namespace) -> int:
    """Learn, and say what came of it."""
    from rebll_avalanche.process import stop_on_terminate

    stop_on_terminate()
    from rebll_avalanche.learner import Learner
    from rebll_avalanche.learner.held import changing

    names = ["method", "backbone", "pretrained", "frozen", "image_size"]
    names += ["precision", "mem_size", "seed", "thumbnails"]
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if arguments.epochs is not None:
        given["training"] = {"epochs": arguments.epochs}
    flags = [
        "--train-backbone" if name == "frozen" else "--" + name.replace("_", "-") for name in given
    ]
    if given and arguments.learner.exists():
        raise ValueError(
            f"{arguments.learner} is there already, and what kind of learner it is cannot change: leave "
            f"out {', '.join(flags)}, or name another file"
        )
    with changing(arguments.learner, lambda: Learner(**given)) as learner:
        print_lesson(learner, arguments)
    return 0


def print_lesson(learner: Learner, arguments: argparse.Namespace) -> None:
    """Learn from the table of :func:`add_lesson`, and say what came of it."""
    lesson = learner.learn(
        arguments.table,
        images=arguments.images,
        about=arguments.about,
        on_error=arguments.on_error,
    )
    print(lesson)
