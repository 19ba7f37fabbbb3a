"""``rebll features``: compute the features of a recipe's images, and keep them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from rebll_avalanche.commands.options import add_cluster_options, check_counts

HELP = """Compute the features of a frozen backbone for all images of a recipe and keep them, without
training, for example: rebll features recipe.yaml --benchmark.features tf_efficientnet_lite0 --ray. Runs of
that recipe find them. On a cluster, files have the same bytes as from a single process."""


def parse(argv: Sequence[str]) -> Any:
    """Parse the recipe and where to compute."""
    from rebll_avalanche.configuration.parse import parse_settings

    def more(parser: Any) -> None:
        text = "threads of a process; on Ray, CPUs of a task"
        add_cluster_options(parser, threads=text, gpus=False)

    config, arguments = parse_settings(argv, prog="rebll features", description=HELP, extend=more)
    check_counts(arguments, "threads")
    if not config.benchmark.features:
        raise ValueError(
            "the recipe asks for no features; name a backbone, such as --benchmark.features "
            "tf_efficientnet_lite0 --model.backbone vector"
        )
    arguments.config = config
    return arguments


def run(arguments: Any) -> int:
    """Compute what is missing, and say which files hold it."""
    import torch

    from rebll_avalanche.files import file_hash
    from rebll_avalanche.process import stop_on_terminate
    from rebll_avalanche.running.build import build_benchmark
    from rebll_avalanche.running.cluster import connected
    from rebll_avalanche.running.feature_blocks import on_ray

    stop_on_terminate()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    with ExitStack() as stack:
        spread = None
        if arguments.ray is not None:
            ray = stack.enter_context(connected(arguments.ray))
            spread = on_ray(ray, arguments.threads or 1)
        maker: Any = build_benchmark(arguments.config, spread).features
    for file in dict.fromkeys(maker.files):
        print(f"{file}  sha256 {file_hash(file)}")
    return 0
