"""What a run asks of the hardware, counted: forward passes, and waits for the device."""

from __future__ import annotations

import math
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import TorchDispatchMode

from rebll_avalanche import labels
from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.models import MultiLabelModel, build_model
from rebll_avalanche.plugins import SigmoidLwFPlugin
from rebll_avalanche.running.stream import run_stream
from rebll_avalanche.strategies import FineTuning, RebLL

BATCH = 8
# Operations whose result the host has to see before it can go on.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2"}


def strategy_of(kind, **options):
    model = build_model("vector", in_features=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return kind(model=model, optimizer=optimizer, **{"train_mb_size": BATCH, **options})


@contextmanager
def watched_passes():
    """Every forward pass of a whole network, with the circumstances it ran in."""
    passes = []

    def note(module, inputs, output):
        if isinstance(module, MultiLabelModel):
            passes.append(
                SimpleNamespace(
                    images=inputs[0],
                    training=module.training,
                    inference=torch.is_inference_mode_enabled(),
                    trainable=any(p.requires_grad for p in module.parameters()),
                )
            )

    handle = register_module_forward_hook(note)
    try:
        yield passes
    finally:
        handle.remove()


class Waits(TorchDispatchMode):
    """Counts operations that make the host wait for the device."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ in WAITING
        return func(*args, **(kwargs or {}))


def test_the_counter_sees_what_it_is_there_for():
    with Waits() as waits:
        value = torch.ones(2).sum()
        value.item()
        float(value)
        bool(value > 1)
        torch.ones(2).nonzero()
    assert waits.count == 4


@pytest.mark.parametrize("others", [0, 1, 2])
def test_one_teacher_pass_per_batch_without_autograd(vector_benchmark, others):
    """However many plugins ask: RebLL's own and others beside it."""
    benchmark = vector_benchmark()
    plugins = [SigmoidLwFPlugin(), SigmoidLwFPlugin(alpha=0.5)][:others]
    strategy = strategy_of(RebLL, mem_size=0, plugins=plugins)
    strategy.train(benchmark.train_stream[0])
    with watched_passes() as passes:
        strategy.train(benchmark.train_stream[1])
    taught = [p for p in passes if not p.trainable]
    assert len(taught) == math.ceil(len(benchmark.train_stream[1].dataset) / BATCH)
    assert all(p.inference and not p.training for p in taught)


def test_every_test_image_is_seen_once_per_step(vector_benchmark):
    benchmark = vector_benchmark()
    strategy = strategy_of(RebLL, mem_size=6)
    seen = []
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train)
        with watched_passes() as passes:
            strategy.eval([test])
        images = torch.cat([p.images for p in passes])
        expected = torch.stack([x for x, _ in test.dataset])
        assert torch.equal(images, expected)
        assert not any(p.training for p in passes)
        seen.append(len(images))
    with watched_passes() as passes:
        run_stream(strategy_of(RebLL, mem_size=0), benchmark)
    evaluated = [len(p.images) for p in passes if not p.training and p.trainable]
    assert sum(evaluated) == sum(seen) == sum(len(e.dataset) for e in benchmark.test_stream)


def test_relabelling_looks_once_at_what_has_gaps_and_at_nothing_else(vector_benchmark):
    """The previous model at images that came, the new one at images that were there."""
    benchmark = vector_benchmark(scenario="B2-C1", classes=4)
    strategy = strategy_of(RebLL, mem_size=10, eval_mb_size=3)
    for number, experience in enumerate(benchmark.train_stream):
        with watched_passes() as passes:
            strategy.train(experience)
        steps = math.ceil(len(experience.dataset) / BATCH)
        distilled = steps if number else 0
        asked = [p for p in passes if not p.training]
        after = asked[distilled:]
        memory = strategy.rebll.memory
        came = int((memory.experience == number).sum())
        assert sum(len(p.images) for p in after) == (len(memory) if number else 0)
        assert len(after) == (
            math.ceil(came / 3) + math.ceil((len(memory) - came) / 3) if number else 0
        )
        assert all(p.inference for p in after)


@pytest.mark.parametrize("kind", [RebLL, FineTuning])
def test_the_host_waits_for_no_step(vector_benchmark, kind, monkeypatch):
    """As many waits in an epoch of many steps as in an epoch of one, with all metrics on."""
    # Looking at labels is for the CPU alone, see the next test.
    monkeypatch.setattr(labels, "check_targets", lambda targets: None)
    options = {"mem_size": 6, "batch_size_mem": 4} if kind is RebLL else {}
    trained, evaluated = [], []
    for batch in (2, 64):
        benchmark = vector_benchmark()
        strategy = strategy_of(kind, train_mb_size=batch, eval_mb_size=64, **options)
        strategy.train(benchmark.train_stream[0])
        with Waits() as waits:
            strategy.train(benchmark.train_stream[1])
        trained.append(waits.count)
        strategy.eval_mb_size = batch
        with Waits() as waits:
            strategy.eval([benchmark.test_stream[1]])
        evaluated.append(waits.count)
    assert trained[0] == trained[1]
    assert evaluated[0] == evaluated[1]


def test_labels_are_looked_at_on_the_cpu_only():
    """A tensor without values stands for one whose values would have to be waited for."""
    logits = torch.zeros(2, 3, device="meta", requires_grad=True)
    PartialLabelBCE()(logits, torch.ones(2, 3, device="meta")).backward()
    assert logits.grad is not None
    with pytest.raises(ValueError, match="2"):
        PartialLabelBCE()(torch.zeros(2, 3), torch.full((2, 3), 2.0))
