"""``rebll show``: draw example images of each experience of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HELP = """Draw some images of every experience with their annotated and their hidden classes,
for example: rebll show recipe.yaml --to experiences.png."""

STREAMS = ("train", "test", "valid")


def parse(argv: Sequence[str]) -> Any:
    """Parse the recipe and the output file."""
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
    """Draw."""
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
