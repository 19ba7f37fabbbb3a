"""Class counts in a memory of 40 images under each sampling policy, without training.

python benchmarks/memory.py --data-root DATA
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from rebll_avalanche.benchmarks import VOC2007, MultiLabelScenes
from rebll_avalanche.memory import Memory
from rebll_avalanche.memory.sampling import POLICIES
from rebll_avalanche.running.environment import seed_everything


def histogram(benchmark: Any, policy: str, mem_size: int, seed: int) -> torch.Tensor:
    """Number of images of each class after the last experience, by their annotated labels."""
    seed_everything(seed)
    memory = Memory(mem_size, policy)
    for experience in benchmark.train_stream:
        memory.update(experience)
    return (memory.labels == 1).sum(dim=0)


def main() -> None:
    """Print one row per policy: means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data-root", help="folder that holds VOCdevkit; drawn scenes if not given"
    )
    parser.add_argument("--scenario", default="B5-C3")
    parser.add_argument("--mem-size", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    benchmark = (
        VOC2007(options.scenario, root=options.data_root)
        if options.data_root
        else MultiLabelScenes(options.scenario)
    )
    print("| policy | classes missing | rarest class | most frequent class | distance to uniform |")
    print("|---|---|---|---|---|")
    for policy in POLICIES:
        counts = torch.stack(
            [histogram(benchmark, policy, options.mem_size, s) for s in range(options.seeds)]
        ).float()
        shares = counts / counts.sum(dim=1, keepdim=True)
        distance = (shares - 1 / counts.shape[1]).abs().sum(dim=1) / 2
        print(
            f"| {policy} | {(counts == 0).sum(dim=1).float().mean():.1f} "
            f"| {counts.min(dim=1).values.mean():.1f} | {counts.max(dim=1).values.mean():.1f} "
            f"| {distance.mean():.2f} |"
        )


if __name__ == "__main__":
    main()
