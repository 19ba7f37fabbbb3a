"""The plain loop, and one seed for everything."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from rebll_avalanche.benchmarks import MultiLabelBenchmark
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins import build_optimizer
from rebll_avalanche.running.environment import seed_everything
from rebll_avalanche.running.stream import StepResult, run_stream
from rebll_avalanche.strategies import RebLL


def run(benchmark: MultiLabelBenchmark, seed: int, **options: object) -> list[StepResult]:
    seed_everything(seed)
    model = build_model("vector", in_features=8)
    strategy = RebLL(model=model, optimizer=build_optimizer(model), mem_size=4, train_epochs=1)
    return run_stream(strategy, benchmark, **options)  # type: ignore[arg-type]


def test_one_result_per_experience_by_plain_names(vectors: MultiLabelBenchmark) -> None:
    heard: list[StepResult] = []
    steps = run(vectors, 0, on_step=heard.append)
    assert heard == steps
    assert [(step.experience, step.classes_seen) for step in steps] == [(0, 2), (1, 4), (2, 6)]
    assert {"mAP", "CF1@0.8", "OF1@0.5", "AvgmAP"} <= set(steps[-1].metrics)
    average = sum(step.metrics["mAP"] for step in steps) / 3
    assert steps[-1].metrics["AvgmAP"] == pytest.approx(average)
    assert all(step.seconds > 0 for step in steps)


def test_a_seed_decides_everything(vectors: MultiLabelBenchmark) -> None:
    first, again, other = ([step.metrics for step in run(vectors, seed)] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_stream_that_does_not_exist_is_refused(vectors: MultiLabelBenchmark) -> None:
    with pytest.raises(ValueError, match=r"no valid stream.*validation_size"):
        run(vectors, 0, stream="valid")


def test_all_three_libraries_are_seeded() -> None:
    def draw() -> tuple[float, float, float]:
        seed_everything(5)
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002

    assert draw() == draw()
