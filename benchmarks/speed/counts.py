"""What a run asks for, counted by hooks: forward passes, and waits of the host for the device.

`tests/test_costs.py` holds the same counts.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from comparison import Row
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import TorchDispatchMode

from rebll_avalanche import RebLL, build_model, multilabel_benchmark
from rebll_avalanche.models import MultiLabelModel

BATCH, MEMORY, FEATURES = 32, 40, 8


class Waits(TorchDispatchMode):
    """Counts operations whose result the host must see before it goes on."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero")
        return func(*args, **(kwargs or {}))


class Passes:
    """Images that went through whole networks, by who asked for it."""

    def __init__(self) -> None:
        self.frozen: list[int] = []  # of the teacher, and of anybody who relabels
        self.wasteful = 0  # frozen, but not in evaluation mode and inference mode
        self.evaluated: list[int] = []

    def note(self, module: Any, inputs: Any, output: Any) -> None:
        """The hook."""
        if not isinstance(module, MultiLabelModel) or module.training:
            return
        if torch.is_inference_mode_enabled():
            self.frozen.append(len(inputs[0]))
        else:
            self.evaluated.append(len(inputs[0]))
        if not any(p.requires_grad for p in module.parameters()):
            self.wasteful += not torch.is_inference_mode_enabled()


def rows(scenario: str = "B8-C4", images: int = 400) -> list[Row]:
    """A whole stream of vectors with a linear network; only counts matter."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.rand(images, FEATURES, generator=generator)
    labels = (torch.rand(images, 20, generator=generator) < 0.15).float()
    labels[torch.arange(images), torch.arange(images) % 20] = 1.0
    benchmark = multilabel_benchmark((vectors, labels), (vectors, labels), scenario)
    model = build_model("vector", in_features=FEATURES)
    # Without momentum, whose counters would be read on the CPU.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    strategy = RebLL(model=model, optimizer=optimizer, train_mb_size=BATCH, mem_size=MEMORY)
    distilled = needed = taught = relabelled = evaluated = wasteful = steps = 0
    for number, (train, test) in enumerate(
        zip(benchmark.train_stream, benchmark.test_stream, strict=True)
    ):
        counted = Passes()
        hook = register_module_forward_hook(counted.note)
        strategy.train(train)
        batches = math.ceil(len(train.dataset) / BATCH)
        if number:
            distilled += batches
            taught += len(counted.frozen[:batches])
            relabelled += sum(counted.frozen[batches:])
            needed += len(strategy.rebll.memory)
        strategy.eval([test])
        hook.remove()
        evaluated += sum(counted.evaluated)
        wasteful += counted.wasteful
        steps += batches
    tested = sum(len(experience.dataset) for experience in benchmark.test_stream)
    return [
        Row("images evaluated over all steps / test sets", evaluated, tested, "images", times=1),
        Row("teacher passes / batches with a teacher", taught, distilled, "passes", times=1),
        Row("teacher passes with autograd or in training mode", wasteful, 0, "passes", times=1),
        Row("images seen to relabel / memory images with gaps", relabelled, needed, "images", times=1),
        Row("waits for the device per further step", _waits(benchmark), 0, "waits", times=1),
    ]  # fmt: skip


def _waits(benchmark: Any) -> float:
    """The difference between epochs of many steps and of few, per step, as on a GPU."""
    counts, steps = [], []
    for batch in (8, 32):
        model = build_model("vector", in_features=FEATURES)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        strategy = RebLL(model=model, optimizer=optimizer, train_mb_size=batch, mem_size=8)
        strategy.train(benchmark.train_stream[0])
        with Waits() as waits:
            strategy.train(benchmark.train_stream[1])
        counts.append(waits.count)
        steps.append(math.ceil(len(benchmark.train_stream[1].dataset) / batch))
    return (counts[0] - counts[1]) / (steps[0] - steps[1])
