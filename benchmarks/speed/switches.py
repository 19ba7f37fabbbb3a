"""What each switch of a run is worth on this machine: images per second of training and evaluation.

    python benchmarks/speed/switches.py --switches default channels_last bfloat16

RebLL's second experience on random images, every switch in turn and round after round; the best round
of each counts. By CPU time, which a busy machine disturbs less; threads need ``--wall`` and a quiet one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

warnings.simplefilter("ignore")

import torch  # noqa: E402
from training import MEMORY, RATE, EpochClock, random_streams  # noqa: E402

from rebll_avalanche import RebLL, build_model  # noqa: E402
from rebll_avalanche.experiment.gradients import ChannelsLastPlugin, GradientPlugin  # noqa: E402

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
    "compile": {"compile": True},
    "channels_last + compile": {"channels_last": True, "compile": True},
}
ONE_THREAD = [name for name, options in SWITCHES.items() if "threads" not in options]


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
        self.strategy.train(train)
        start = self.clock.now()
        self.strategy.eval([test])
        evaluated = len(test.dataset) / (self.clock.now() - start)
        return len(train.dataset) / self.clock.elapsed, evaluated


def main() -> None:
    """Print one row per switch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--wall", action="store_true", help="time as it passes, not CPU time")
    parser.add_argument("--switches", nargs="+", default=ONE_THREAD, choices=SWITCHES)
    arguments = parser.parse_args()
    benchmark = random_streams(arguments.images, arguments.image_size)
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
