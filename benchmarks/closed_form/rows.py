"""One row of a table: a method learns a stream of feature vectors and is measured after each step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from features import Split
from torch import Tensor, nn

from rebll_avalanche.benchmarks import MultiLabelBenchmark, multilabel_benchmark
from rebll_avalanche.metrics import multilabel_evaluator, read_metrics
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.models.expanded import ExpandedLinear, RandomFeatures
from rebll_avalanche.plugins import build_optimizer
from rebll_avalanche.report.reliability import calibration_error, reliability
from rebll_avalanche.strategies import get_method
from rebll_avalanche.strategies.closed_form import L3A, ClosedForm

THRESHOLDS = (0.8, 0.5, 0.525)
# Makes a strategy for vectors of that length; the second argument is the seed.
Build = Callable[[int, int], Any]


@dataclass(frozen=True)
class Row:
    """Results of a method, as fractions; ``reliability`` holds (score, share present, count) of each bin."""

    name: str
    maps: list[float]
    last: dict[str, float]
    calibration_error: float
    seconds_per_experience: float
    state_bytes: int
    reliability: list[tuple[float, float, int]]

    @property
    def average(self) -> float:
        """Mean mAP over all steps."""
        return sum(self.maps) / len(self.maps)


def stream(train: Split, test: Split, scenario: str) -> MultiLabelBenchmark:
    """Experiences of vectors; classes are in alphabetical order already."""
    pairs = ((split.features, split.labels) for split in (train, test))
    return multilabel_benchmark(*pairs, scenario)


def measure(name: str, build: Build, benchmark: MultiLabelBenchmark, seed: int = 0) -> Row:
    """Learn the stream step by step."""
    torch.manual_seed(seed)
    features = benchmark.test_stream[0].dataset[0][0].shape[-1]
    strategy = build(features, seed)
    maps, seconds = [], 0.0
    last: dict[str, float] = {}
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        start = time.perf_counter()
        strategy.train(train)
        seconds += time.perf_counter() - start
        last = read_metrics(strategy.eval([test]))
        maps.append(last["mAP"])
    probability, labels = predictions(strategy.model, benchmark.test_stream[-1])
    present, absent = (probability[labels == value].numpy() for value in (1, 0))
    curve = zip(*(column.tolist() for column in reliability(present, absent)), strict=True)
    state = strategy.closed_form.num_bytes if hasattr(strategy, "closed_form") else 0
    steps = len(benchmark.train_stream)
    error = calibration_error(present, absent)
    return Row(name, maps, last, error, seconds / steps, state, list(curve))


@torch.no_grad()
def predictions(model: nn.Module, experience: Any) -> tuple[Tensor, Tensor]:
    """Probabilities and labels of a whole experience."""
    data = experience.dataset
    inputs = torch.stack([data[index][0] for index in range(len(data))])
    return model.eval()(inputs).sigmoid(), data.targets.data


def network(features: int, **options: Any) -> MultiLabelModel:
    """A head on vectors."""
    return MultiLabelModel(nn.Identity(), ExpandedLinear(features, **options), windows=True)


def evaluator() -> Any:
    """Metrics without loggers."""
    return multilabel_evaluator(thresholds=THRESHOLDS, loggers=[])


def closed_form(*, power: float = 0.5, **options: Any) -> Build:
    """A closed-form row."""
    return lambda features, seed: ClosedForm(
        model=network(features, power=power), train_mb_size=256, evaluator=evaluator(), **options
    )


def l3a() -> Build:
    """L3A without its epoch of fine-tuning, as the backbone is the same for all rows."""
    return lambda features, seed: L3A(
        model=MultiLabelModel(nn.Identity(), RandomFeatures(features, seed=seed)),
        train_mb_size=256,
        evaluator=evaluator(),
    )


def by_gradient(method: str, *, lr: float, epochs: int = 20, mem_size: int = 0) -> Build:
    """A row of the methods that train: a linear head on the same vectors."""
    chosen = get_method(method)

    def build(features: int, seed: int) -> Any:
        model = network(features)
        memory = {"mem_size": mem_size} if chosen.uses_memory else {}
        return chosen.build(
            model=model,
            optimizer=build_optimizer(model, lr=lr),
            train_mb_size=64,
            train_epochs=epochs,
            eval_mb_size=512,
            evaluator=evaluator(),
            **memory,
        )

    return build
