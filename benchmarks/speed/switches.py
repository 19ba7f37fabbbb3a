"""What each switch of a run is worth on this machine: images per second of training and evaluation.

    python benchmarks/speed/switches.py --switches default channels_last bfloat16
    python benchmarks/speed/switches.py --wall --files --switches default "one loader process"

RebLL's second experience on random images in memory, or on JPEG files with the paper's augmentation;
every switch in turn and round after round; the best round of each counts. By CPU time, which a busy
machine disturbs less; threads and loader processes need ``--wall`` and a quiet one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import torch  # noqa: E402
from training import MEMORY, RATE, EpochClock, random_streams  # noqa: E402

from rebll_avalanche import (  # noqa: E402
    VOC2007,
    MultiLabelScenes,
    RebLL,
    build_model,
    keep_freed_memory,
)
from rebll_avalanche.benchmarks import training_transform  # noqa: E402
from rebll_avalanche.benchmarks.shapes import CLASSES  # noqa: E402
from rebll_avalanche.plugins.gradients import ChannelsLastPlugin, GradientPlugin  # noqa: E402

# What differs from the default: float32, one thread, contiguous, batch 32, not compiled.
SWITCHES: dict[str, dict[str, Any]] = {
    "default": {},
    "channels_last": {"channels_last": True},
    "bfloat16": {"precision": torch.bfloat16},
    "channels_last + bfloat16": {"channels_last": True, "precision": torch.bfloat16},
    "two threads": {"threads": 2},
    "accumulate 2 x 16": {"batch": 16, "accumulate": 2},
    "evaluation batch 8": {"eval_batch": 8},
    "evaluation batch 64": {"eval_batch": 64},
    "evaluation batch 256": {"eval_batch": 256},
    "one loader process": {"workers": 1},
    "two loader processes": {"workers": 2},
    "compile": {"compile": True},
    "channels_last + compile": {"channels_last": True, "compile": True},
}
BY_WALL = {"threads", "workers"}
BY_CPU = [name for name, options in SWITCHES.items() if not options.keys() & BY_WALL]


def streams(images: int, side: int, folder: Path | None) -> Any:
    """Two experiences: random images in memory, or drawn scenes in files of a folder, augmented."""
    if folder is None:
        return random_streams(images, side)
    MultiLabelScenes(train_size=images, test_size=images, image_size=160).write_voc(folder)
    return VOC2007(
        "B15-C5",
        root=folder,
        class_names=CLASSES,
        image_size=side,
        train_transform=training_transform(side),
    )


class Contestant:
    """A strategy with some switches set.

    Args:
        backbone: Of the network.
        benchmark: Two experiences.
        options: See :data:`SWITCHES`.
        clock: For training epochs and evaluations.
    """

    def __init__(
        self, backbone: str, benchmark: Any, options: dict[str, Any], clock: EpochClock
    ) -> None:
        self.benchmark = benchmark
        self.threads = options.get("threads", 1)
        self.workers = options.get("workers", 0)
        model = build_model(backbone)
        model.precision = options.get("precision")
        if options.get("compile"):
            model.backbone.compile()
        self.clock = clock
        plugins: list[Any] = [ChannelsLastPlugin()] if options.get("channels_last") else []
        self.strategy = RebLL(
            model=model,
            optimizer=torch.optim.Adam(model.parameters(), lr=RATE),
            train_mb_size=options.get("batch", 32),
            eval_mb_size=options.get("eval_batch", 32),
            mem_size=MEMORY,
            plugins=[*plugins, self.clock],
        )
        if "accumulate" in options:
            self.strategy.plugins.append(GradientPlugin(accumulate=options["accumulate"]))
        torch.set_num_threads(self.threads)
        self.strategy.train(benchmark.train_stream[0])
        self.round()  # compiles, allocates

    def round(self) -> tuple[float, float]:
        """Images per second of an epoch and of an evaluation."""
        torch.set_num_threads(self.threads)
        train, test = self.benchmark.train_stream[1], self.benchmark.test_stream[1]
        self.strategy.train(train, num_workers=self.workers)
        start = self.clock.now()
        self.strategy.eval([test], num_workers=self.workers)
        evaluated = len(test.dataset) / (self.clock.now() - start)
        return len(train.dataset) / self.clock.elapsed, evaluated


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--wall", action="store_true", help="time as it passes, not CPU time")
    parser.add_argument("--files", action="store_true", help="JPEG files with augmentation")
    parser.add_argument("--switches", nargs="+", default=BY_CPU, choices=SWITCHES)
    arguments = parser.parse_args()
    keep_freed_memory()  # as runs of rebll do
    with tempfile.TemporaryDirectory() as folder:
        compare(arguments, Path(folder) if arguments.files else None)


def compare(arguments: argparse.Namespace, folder: Path | None) -> None:
    """Let the contestants take turns, and print one row for each."""
    benchmark = streams(arguments.images, arguments.image_size, folder)
    now = time.perf_counter if arguments.wall else time.process_time
    made = {
        name: Contestant(arguments.backbone, benchmark, SWITCHES[name], EpochClock(now))
        for name in arguments.switches
    }
    best = dict.fromkeys(made, (0.0, 0.0))
    for _ in range(arguments.rounds):
        for name, contestant in made.items():
            speed = contestant.round()
            best[name] = (max(best[name][0], speed[0]), max(best[name][1], speed[1]))
    base = best[arguments.switches[0]]
    print("| switch | training, images/s | gain | evaluation, images/s | gain |")
    print("|---|---:|---:|---:|---:|")
    for name, (train, test) in best.items():
        print(
            f"| {name} | {train:.1f} | {train / base[0]:.2f} x "
            f"| {test:.1f} | {test / base[1]:.2f} x |"
        )


if __name__ == "__main__":
    main()
