"""The plain loop of continual learning: train on an experience, evaluate on all classes seen so far."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from rebll_avalanche.arguments import check_callable
from rebll_avalanche.distributed.ranks import is_first
from rebll_avalanche.metrics import read_metrics
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import class_range
from rebll_avalanche.words import brief


@dataclass(frozen=True)
class StepResult:
    """Results after one experience.

    Attributes:
        experience: Its number in the stream.
        classes_seen: Number of classes seen so far.
        metrics: Fractions by short name: ``mAP``, ``CF1@0.8``, ``AvgmAP`` ...
        seconds: Duration of training and evaluation.
    """

    experience: int
    classes_seen: int
    metrics: dict[str, float]
    seconds: float


def run_stream(
    strategy: Strategy,
    benchmark: Any,
    *,
    stream: str = "test",
    progress: bool = False,
    on_step: Callable[[StepResult], None] | None = None,
) -> list[StepResult]:
    """Train a strategy on every experience and evaluate it after each.

    Args:
        strategy: Any Avalanche strategy.
        benchmark: Has ``train_stream`` and the stream to evaluate on.
        stream: ``"test"``, or ``"valid"`` while tuning.
        progress: Show a progress bar on a terminal.
        on_step: Called with each result as soon as it is available.

    Returns:
        One result per experience.

    >>> import torch
    >>> from rebll_avalanche import RebLL, build_model, build_optimizer, multilabel_benchmark
    >>> from rebll_avalanche import multilabel_evaluator
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> model = build_model("vector", in_features=4)
    >>> strategy = RebLL(
    ...     model=model, optimizer=build_optimizer(model, lr=0.1), mem_size=4, train_mb_size=4,
    ...     evaluator=multilabel_evaluator(loggers=[]),
    ... )
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C1"))
    >>> [step.classes_seen for step in steps], "mAP" in steps[-1].metrics
    ([2, 3, 4], True)
    """
    if not callable(getattr(strategy, "train", None)):
        raise TypeError(f"strategy must be one of Avalanche's, got {brief(strategy)}")
    if not hasattr(benchmark, "train_stream"):
        raise TypeError(f"benchmark must have a train_stream, got {brief(benchmark)}")
    check_callable("on_step", on_step)
    results = []
    pairs = list(zip(benchmark.train_stream, evaluation_stream(benchmark, stream), strict=True))
    shown = progress and sys.stderr.isatty() and is_first()
    bar = tqdm(pairs, desc="experiences", disable=not shown)
    for train_experience, eval_experience in bar:
        started = time.perf_counter()
        strategy.train(train_experience)
        metrics = read_metrics(strategy.eval([eval_experience]), stream)
        step = StepResult(
            experience=int(train_experience.current_experience),
            classes_seen=class_range(train_experience)[1],
            metrics=metrics,
            seconds=time.perf_counter() - started,
        )
        results.append(step)
        if "mAP" in metrics:
            bar.set_postfix_str(f"mAP {100 * metrics['mAP']:.1f}")
        if on_step is not None:
            on_step(step)
    return results


def evaluation_stream(benchmark: Any, stream: str) -> Any:
    """The benchmark's stream of the given name.

    Raises:
        ValueError: When the benchmark has no such stream.
    """
    found = getattr(benchmark, f"{stream}_stream", None) if isinstance(stream, str) else None
    if found is None or callable(found):
        raise ValueError(
            f"the benchmark has no {brief(stream)[1:-1]} stream; "
            "build it with validation_size=0.1 to evaluate on held-out training images"
        )
    return found
