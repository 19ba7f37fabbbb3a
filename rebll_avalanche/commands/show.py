"""``rebll show``: draw the experiences of a recipe, or list what a learner knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rebll_avalanche.commands.options import check_counts
from rebll_avalanche.words import Parser

HELP = """Draw some images of every experience with the classes it labels and those it hides,
for example: rebll show recipe.yaml --to experiences.png. Of a learner, list classes and lessons: rebll show
city.rebll, and draw some pictures of each lesson, whose files may be gone: --to lessons.png."""


def parse(argv: Sequence[str]) -> Any:
    """Parse a recipe and where to draw, or a learner."""
    if argv and argv[0].endswith(".rebll"):
        parser = Parser(prog="rebll show", description=HELP)
        parser.add_argument("learner", type=Path, help="a .rebll file")
        parser.add_argument(
            "--to", type=Path, help="draw pictures of each lesson into this PNG file"
        )
        parser.add_argument("--images", type=int, default=6, help="pictures per lesson")
        arguments = parser.parse_args(argv)
        check_counts(arguments, "images")
        return arguments
    from rebll_avalanche.configuration.parse import parse_settings

    def more(parser: Any) -> None:
        parser.add_argument("--to", default="experiences.png", help="the PNG file to write")
        parser.add_argument("--images", type=int, default=6, help="images per experience")
        parser.add_argument("--stream", choices=("train", "test", "valid"), default="train")

    config, arguments = parse_settings(argv, prog="rebll show", description=HELP, extend=more)
    check_counts(arguments, "images")
    arguments.config = config
    return arguments


def run(arguments: Any) -> int:
    """Draw the experiences, or list the learner's classes and lessons."""
    if hasattr(arguments, "learner"):
        from rebll_avalanche.learner import Learner
        from rebll_avalanche.learner.lesson import overview

        learner = Learner.load(arguments.learner)
        print(overview(learner))
        if arguments.to is not None:
            from rebll_avalanche.learner.sheet import draw_lessons

            print(f"drawn in {draw_lessons(learner, arguments.to, arguments.images)}")
        return 0
    from rebll_avalanche.benchmarks.show import draw_experiences
    from rebll_avalanche.running.build import build_benchmark
    from rebll_avalanche.running.stream import evaluation_stream

    benchmark = build_benchmark(arguments.config)
    evaluation_stream(benchmark, arguments.stream)
    path = draw_experiences(
        benchmark, arguments.to, images_per_experience=arguments.images, stream=arguments.stream
    )
    print(f"drawn in {path}")
    return 0
