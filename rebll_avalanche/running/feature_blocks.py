"""Compute features of a frozen backbone on a Ray cluster, one task per block of images.

Blocks have the same batches as in a single process, so the cached files have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.sections import BenchmarkConfig

if TYPE_CHECKING:
    from rebll_avalanche.benchmarks.features import Spread

# Queued blocks per CPU, so that no CPU is idle.
WAITING = 2
# Retries of a block whose machine or process was lost.
RETRIES = 5


def on_ray(ray: Any, threads: int = 1) -> Spread:
    """A function for the ``spread`` argument of ``FrozenFeatures``.

    Args:
        ray: The ray module, connected to a cluster whose machines share the images' paths.
        threads: CPUs per block.
    """

    def spread(maker: Any, blocks: Sequence[Any]) -> Iterator[Any]:
        task = ray.remote(num_cpus=threads, max_retries=RETRIES)(_task)
        sent = ray.put(maker.alone())
        room = WAITING * max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
        waiting: list[Any] = []
        with tqdm(
            total=sum(map(len, blocks)), desc="features", unit="picture", disable=None, leave=False
        ) as bar:
            for number, block in enumerate(blocks):
                waiting += [
                    task.remote(sent, following, threads)
                    for following in blocks[number + len(waiting) : number + room]
                ]
                try:
                    found = ray.get(waiting.pop(0))
                except ray.exceptions.RayError as error:
                    said = str(error).splitlines()
                    raise ValueError(f"features were not computed: {said[0]}") from error
                yield found
                bar.update(len(block))

    return spread


def _task(maker: Any, pictures: Any, threads: int) -> Any:
    """Compute one block in a Ray process."""
    import torch

    torch.set_num_threads(threads)
    return maker.of_block(pictures)


def fill_caches(configs: Sequence[Config], spread: Spread) -> None:
    """Compute the features that runs need, each once; errors are left to the runs to report."""
    asked: dict[BenchmarkConfig, Config] = {}
    for config in configs:
        if config.benchmark.features:
            asked.setdefault(replace(config.benchmark, scenario="B1-C1", mode="overlap"), config)
    for config in asked.values():
        from rebll_avalanche.running.build import build_benchmark

        with suppress(ValueError, OSError):
            build_benchmark(config, spread)
