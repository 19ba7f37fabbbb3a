"""``rebll show``: what each experience of a recipe holds, or what a learner knows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HELP = """Draw some images of every experience with the classes it labels and those it hides,
for example: rebll show recipe.yaml --to experiences.png. Of a learner, list classes and lessons: rebll show
city.rebll."""

STREAMS = ("train", "test", "valid")


def parse(argv: Sequence[str]) -> Any:
    """The recipe and where to draw, or the learner."""
    if len(argv) == 1 and argv[0].endswith(".rebll"):
        return argparse.Namespace(learner=Path(argv[0]))
    from rebll_avalanche.configuration.parse import parse_settings
    from rebll_avalanche.words import check_choice

    def more(parser: Any) -> None:
        parser.add_argument("--to", default="experiences.png", help="the PNG file to write")
        parser.add_argument("--images", type=int, default=6, help="images per experience")
        parser.add_argument("--stream", default="train", help="train, test or valid")

    config, arguments = parse_settings(argv, prog="rebll show", description=HELP, extend=more)
    check_choice("--stream", arguments.stream, STREAMS)
    if arguments.images < 1:
        raise ValueError(f"--images must be at least 1, got {arguments.images}")
    arguments.config = config
    return arguments


def run(arguments: Any) -> int:
    """Draw, or list."""
    if hasattr(arguments, "learner"):
        from rebll_avalanche.learner import Learner
        from rebll_avalanche.learner.lesson import overview

        print(overview(Learner.load(arguments.learner)))
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
