"""A training step beside the same step written by hand, and an evaluation beside bare forward passes."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from typing import Any

import timm
import torch
from avalanche.training import Naive
from avalanche.training.plugins import SupervisedPlugin
from comparison import Row, Stopwatch, seconds, turn_by_turn
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from rebll_avalanche import PartialLabelBCE, RebLL, RebLLPlugin, build_model
from rebll_avalanche.benchmarks import MultiLabelBenchmark, multilabel_benchmark
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.models import MultiLabelModel

CLASSES, OLD = 20, 15
MEMORY = 40
RATE = 1e-4


class EpochClock(SupervisedPlugin):
    """Seconds of the last training epoch, without what surrounds an experience.

    Args:
        now: CPU time if not given.
    """

    def __init__(self, now: Callable[[], float] = time.process_time) -> None:
        super().__init__()
        self.now = now
        self.elapsed = self._start = 0.0

    def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        """Start."""
        self._start = self.now()

    def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
        """Stop."""
        self.elapsed = self.now() - self._start


def random_streams(images: int, side: int) -> MultiLabelBenchmark:
    """Two experiences of random images in memory; every image lands in both."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(images, 3, side, side, generator=generator)
    labels = (torch.rand(images, CLASSES, generator=generator) < 0.1).float()
    labels[:, [0, OLD]] = 1.0
    return multilabel_benchmark((pictures, labels), (pictures, labels), f"B{OLD}-C{CLASSES - OLD}")


class HandWritten(nn.Module):
    """The same network as one would write it into a script, without anything that this package adds.

    Args:
        model: Its layers and weights are copied.
    """

    def __init__(self, model: MultiLabelModel) -> None:
        super().__init__()
        copied = copy.deepcopy(model)
        self.backbone, self.head = _as_its_authors_made_it(copied), copied.head
        self.mean, self.std = copied.input_mean, copied.input_std

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        if self.mean is not None:
            images = (images - self.mean) / self.std
        logits: Tensor = self.head(self.backbone(images))
        return logits


def _as_its_authors_made_it(model: MultiLabelModel) -> nn.Module:
    """The backbone with timm's own layers, where this package replaces some by faster ones."""
    backbone = model.backbone
    if not hasattr(backbone, "network"):
        return backbone
    name = model.weights["name"]
    plain = timm.create_model(name, num_classes=0, global_pool="")
    plain.load_state_dict(backbone.network.state_dict())
    backbone.network = plain.train(model.training)
    return backbone


def hand_written_step(
    model: nn.Module, teacher: nn.Module | None, optimizer: torch.optim.Optimizer
) -> Callable[..., None]:
    """RebLL, or fine-tuning where there is no teacher, as one would write it into a script."""
    positive_exponent, negative_exponent = 1.2 * math.log(CLASSES), 0.7 * math.log(CLASSES)

    def down_weighted(logits: Tensor, targets: Tensor, on_positive: bool) -> Tensor:
        log_positive, log_negative = logsigmoid(logits), logsigmoid(-logits)
        positive, negative = targets * log_positive, (1 - targets) * log_negative
        if on_positive:
            positive = positive * (positive_exponent * log_negative).exp()
        else:
            negative = negative * (negative_exponent * log_positive).exp()
        return -(positive + negative).mean()

    def step(images: Tensor, labels: Tensor, old_images: Tensor, old_labels: Tensor) -> None:
        optimizer.zero_grad()
        logits = model(images)
        if teacher is None:
            loss = binary_cross_entropy_with_logits(logits[:, OLD:], labels[:, OLD:])
        else:
            with torch.inference_mode():
                said = teacher(images)[:, :OLD].sigmoid()
            loss = 0.15 * down_weighted(logits[:, OLD:], labels[:, OLD:], True)
            loss = loss + 0.85 * down_weighted(logits[:, :OLD], said.clone(), True)
            replayed = model(old_images)[:, :OLD]
            loss = loss + 0.3 * down_weighted(replayed, old_labels[:, :OLD], False)
        loss.backward()
        optimizer.step()

    return step


def strategy_epochs(
    strategy: Any, benchmark: MultiLabelBenchmark, now: Callable[[], float] = time.process_time
) -> Stopwatch:
    """A strategy as a contestant: each turn is an epoch of the second experience."""
    clock = EpochClock(now)
    strategy.plugins.append(clock)
    strategy.train(benchmark.train_stream[0])

    def run() -> float:
        strategy.train(benchmark.train_stream[1])
        return clock.elapsed

    return run


def bare_epochs(
    model: nn.Module, teacher: nn.Module | None, images: Tensor, labels: Tensor, batch: int
) -> Stopwatch:
    """The same passes without a data set, a loader, a strategy or a metric: slices of one tensor."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    step = hand_written_step(model.train(), teacher, optimizer)

    def epoch() -> None:
        order = torch.randperm(len(images))
        for part in order.split(batch):
            memory = torch.randperm(len(images))[:MEMORY]
            step(images[part], labels[part], images[memory], labels[memory])

    return seconds(epoch)


def training_rows(backbone: str, side: int, batch: int, steps: int, rounds: int) -> list[Row]:
    """RebLL, RebLL as a plugin, and fine-tuning, each beside its lower bound."""
    benchmark = random_streams(steps * batch, side)
    images = torch.stack([x for x, _ in benchmark.train_stream[1].dataset])
    labels = benchmark.train_stream[1].full_targets

    def fresh() -> dict[str, Any]:
        model = build_model(backbone)
        return {"model": model, "optimizer": torch.optim.Adam(model.parameters(), lr=RATE)}

    naive: dict[str, Any] = {"criterion": PartialLabelBCE(), "train_mb_size": batch}
    strategies = {
        "rebll": RebLL(train_mb_size=batch, mem_size=MEMORY, **fresh()),
        "plugin": Naive(
            plugins=[RebLLPlugin(mem_size=MEMORY)],
            evaluator=multilabel_evaluator(),
            **naive,
            **fresh(),
        ),
        "naive": Naive(evaluator=multilabel_evaluator(), **naive, **fresh()),
    }
    contestants = {name: strategy_epochs(made, benchmark) for name, made in strategies.items()}
    strategies["rebll"].train(benchmark.train_stream[1])
    student = strategies["rebll"].model
    teacher = HandWritten(student).eval().requires_grad_(False)
    for name, previous in (("bare_rebll", teacher), ("bare_tuning", None)):
        copied = HandWritten(student)
        contestants[name] = bare_epochs(copied, previous, images, labels, batch)
    taken = turn_by_turn(rounds, **contestants)
    per_step = {name: 1000 * value / steps for name, value in taken.items()}
    setting = f"{backbone}, {side} px, batch {batch}"
    return [
        Row(f"RebLL step ({setting} + {MEMORY})", per_step["rebll"], per_step["bare_rebll"]),
        Row(f"RebLLPlugin in Naive / RebLL ({setting})", per_step["plugin"], per_step["rebll"], times=1.05),
        Row(f"Naive with PartialLabelBCE ({setting})", per_step["naive"], per_step["bare_tuning"]),
    ]  # fmt: skip


def evaluation_row(
    backbone: str, side: int, batch: int, images: int, rounds: int, times: float | None = None
) -> Row:
    """One step's test set with all metrics, beside its forward passes alone."""
    benchmark = random_streams(images, side)
    model = build_model(backbone)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    strategy = RebLL(model=model, optimizer=optimizer, train_mb_size=batch, mem_size=MEMORY)
    for experience in benchmark.train_stream:
        strategy.train(experience)
    pictures = torch.stack([x for x, _ in benchmark.test_stream[1].dataset])
    plain = HandWritten(model).eval()

    @torch.inference_mode()
    def bare() -> None:
        for part in pictures.split(batch):
            plain(part)

    taken = turn_by_turn(
        rounds,
        ours=seconds(lambda: strategy.eval([benchmark.test_stream[1]])),
        bare=seconds(bare),
    )
    per_image = {name: 1000 * value / images for name, value in taken.items()}
    what = f"evaluation with all metrics ({backbone}, {side} px, batch {batch}), per image"
    return Row(what, per_image["ours"], per_image["bare"], times=times)


def rows() -> list[Row]:
    """A small network, where overhead shows; larger ones are in goals.py."""
    return [
        *training_rows("small_cnn", side=48, batch=64, steps=2, rounds=60),
        # As many images as a late step of VOC has: beside a handful, the metrics' fixed part would show.
        evaluation_row("small_cnn", side=48, batch=64, images=2048, rounds=16),
        evaluation_row("small_cnn", side=48, batch=256, images=2048, rounds=16),
    ]
