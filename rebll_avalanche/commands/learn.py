"""``rebll learn``: teach a learner one more lesson."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebll_avalanche.learner import Learner

HELP = """Teach a learner from a table of pictures, for example: rebll learn city.rebll march.csv --images
photos/march. The file is created if it does not exist. The pictures are not needed again afterwards. An
interrupted lesson leaves the file unchanged."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("learner", type=Path, help="a .rebll file")
    add_lesson(parser)
    new = parser.add_argument_group("for a new file")
    new.add_argument("--method", help="one that needs no earlier data (default: closed-form)")
    new.add_argument("--backbone", help="a timm name (default: tf_efficientnet_lite0)")
    new.add_argument("--pretrained", help="pypi, timm, or a file")
    new.add_argument(
        "--image-size",
        type=int,
        help="shorter side in pixels (default: 288, or 224 if the backbone is trained)",
    )
    new.add_argument(
        "--precision",
        type=float,
        help="choose thresholds with this precision, such as 0.9 (default: with the best F1)",
    )
    new.add_argument(
        "--train-backbone",
        action="store_const",
        const=False,
        dest="frozen",
        help="train the whole network; memory then holds pictures instead of features",
    )
    new.add_argument("--mem-size", help="for methods with a memory: number of pictures, or '20 MB'")
    new.add_argument("--epochs", type=int, help="for methods that train")
    new.add_argument("--seed", type=int, help="seed of all random numbers (default: 0)")
    new.add_argument(
        "--thumbnails",
        help="small copies of pictures kept for display: a number, or '16 MB'; 0 for none",
    )


def add_lesson(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a lesson: a table, and what to do with unreadable pictures."""
    add_table(parser)
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="refuse a table with unreadable pictures, or skip these (default: raise)",
    )


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a table: its file, its pictures, and the classes that it annotates."""
    parser.add_argument("table", type=Path, help="CSV, COCO or Label Studio JSON, or a folder")
    parser.add_argument("--images", type=Path, help="folder of the pictures (default: the table's)")
    parser.add_argument(
        "--about",
        type=lambda text: [name.strip() for name in text.split(",")],
        help="the classes that the table annotates, separated by commas (default: those it names)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Teach the lesson and print what was learned."""
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
            f"{arguments.learner} exists already, and its kind of learner cannot change: leave out "
            f"{', '.join(flags)}, or name another file"
        )
    with changing(arguments.learner, lambda: Learner(**given)) as learner:
        print_lesson(learner, arguments)
    return 0


def print_lesson(learner: Learner, arguments: argparse.Namespace) -> None:
    """Teach the lesson of :func:`add_lesson` and print what was learned."""
    lesson = learner.learn(
        arguments.table, images=arguments.images, about=arguments.about, on_error=arguments.on_error
    )
    print(lesson)
