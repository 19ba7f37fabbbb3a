"""What grows with classes, memory and experiences, and how: numbers and one plot.

    python benchmarks/speed/growth.py --output outputs/growth.png

A small network on random images in memory; CPU time of one thread. A step is a batch of 32 with 32
memory images and a teacher; evaluation and relabelling are those of the last experience, or of the
whole run where experiences grow.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
warnings.simplefilter("ignore")

import torch  # noqa: E402
from training import EpochClock  # noqa: E402

from rebll_avalanche import RebLL, build_model, multilabel_benchmark  # noqa: E402

BATCH, SIDE = 32, 16
CLASSES = (10, 100, 1000)
MEMORIES = (40, 400, 4000, 100_000)
EXPERIENCES = (4, 10, 40, 100)


@dataclass(frozen=True)
class Cost:
    """CPU milliseconds of a run.

    Attributes:
        step: One training step of the last experience.
        evaluation: The evaluation after the last experience.
        relabelling: What follows the last experience: sampling and relabelling memory.
        all_evaluations: Those of the whole run together.
        all_relabellings: Those of the whole run together.
    """

    step: float
    evaluation: float
    relabelling: float
    all_evaluations: float
    all_relabellings: float


def measure(classes: int, experiences: int, memory: int, images: int) -> Cost:
    """One run in which every image belongs to every experience."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(images, 3, SIDE, SIDE, generator=generator)
    labels = (torch.rand(images, classes, generator=generator) < 0.1).float()
    size = classes // experiences
    labels[:, ::size] = 1.0
    benchmark = multilabel_benchmark(
        (pictures, labels), (pictures[:256], labels[:256]), f"B{classes - size * (experiences - 1)}-C{size}"
    )  # fmt: skip
    model = build_model("small_cnn")
    clock = EpochClock()
    strategy = RebLL(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-4),
        train_mb_size=BATCH,
        eval_mb_size=64,
        mem_size=memory,
        batch_size_mem=BATCH,
        plugins=[clock],
    )
    relabellings: list[float] = []
    _time_end_of_experience(strategy, relabellings)
    evaluations = []
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train)
        start = time.process_time()
        strategy.eval([test])
        evaluations.append(time.process_time() - start)
    steps = -(-len(benchmark.train_stream[-1].dataset) // BATCH)
    return Cost(
        step=1000 * clock.elapsed / steps,
        evaluation=1000 * evaluations[-1],
        relabelling=1000 * relabellings[-1],
        all_evaluations=1000 * sum(evaluations),
        all_relabellings=1000 * sum(relabellings),
    )


def _time_end_of_experience(strategy: Any, taken: list[float]) -> None:
    plugin = strategy.rebll
    work = plugin.after_training_exp

    def timed(*arguments: Any, **options: Any) -> None:
        start = time.process_time()
        work(*arguments, **options)
        taken.append(time.process_time() - start)

    plugin.after_training_exp = timed


def least(*costs: Cost) -> Cost:
    """The least of every number: noise only ever adds."""
    return Cost(
        *(min(values) for values in zip(*(vars(cost).values() for cost in costs), strict=True))
    )


def study(axes: list[str], rounds: int) -> dict[str, dict[int, Cost]]:
    """The three axes; what is not varied is 20 classes, 2 experiences and 40 images of memory."""
    settings = {
        "classes": [(n, (n, 2, 40, 256)) for n in CLASSES],
        "memory": [(n, (20, 2, n, max(n, 400))) for n in MEMORIES],
        "experiences": [(n, (200, n, 40, 128)) for n in EXPERIENCES],
    }
    settings = {axis: settings[axis] for axis in axes}
    measure(20, 2, 40, 128)  # warms up
    # Otherwise one search through all imported modules, a third of a second, falls into some longer run.
    gc.collect()
    gc.freeze()
    return {
        axis: {
            value: least(*(measure(*setting) for _ in range(rounds))) for value, setting in points
        }
        for axis, points in settings.items()
    }


def draw(results: dict[str, dict[int, Cost]], path: Path) -> None:
    """One panel per axis, both scales logarithmic: a line of slope one is proportional growth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = {
        "classes": ("classes learned", "after the last of 2 experiences"),
        "memory": ("images in memory", "after the last of 2 experiences"),
        "experiences": ("experiences", "evaluation and relabelling: whole run"),
    }
    figure, panels = pyplot.subplots(
        1, len(results), figsize=(4 * len(results), 3.8), sharey=True, constrained_layout=True
    )
    for panel, (axis, costs) in zip(panels, results.items(), strict=True):
        whole = axis == "experiences"
        xs = list(costs)
        curves = {
            "one training step": [c.step for c in costs.values()],
            "evaluation": [c.all_evaluations if whole else c.evaluation for c in costs.values()],
            "sampling and relabelling": [
                c.all_relabellings if whole else c.relabelling for c in costs.values()
            ],
        }
        for (name, ys), marker in zip(curves.items(), "osD", strict=True):
            panel.plot(xs, ys, marker=marker, label=name)
        if axis != "classes":  # where nothing grows there is nothing to compare with
            anchor = curves["sampling and relabelling"][-1]
            line = [anchor * x / xs[-1] for x in xs]
            panel.plot(xs, line, color="0.5", ls=":", label="proportional")
        panel.set(xscale="log", yscale="log", xlabel=labels[axis][0], title=labels[axis][1])
        panel.set_xticks(xs, [f"{x}" for x in xs])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("CPU milliseconds")
    panels[1].legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("outputs/growth.png"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("axes", nargs="*", default=["classes", "memory", "experiences"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = study(arguments.axes, arguments.rounds)
    print("| axis | value | step | evaluation | relabelling | all evaluations | all relabellings |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for axis, costs in results.items():
        for value, cost in costs.items():
            numbers = " | ".join(f"{number:.1f}" for number in vars(cost).values())
            print(f"| {axis} | {value} | {numbers} |")
    if len(results) > 1:
        draw(results, arguments.output)


if __name__ == "__main__":
    main()
