"""Every method by name: it runs, it is finite, and a wrong name is answered well."""

from __future__ import annotations

import math

import pytest
import torch

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.models import build_model
from rebll_avalanche.running.stream import run_stream
from rebll_avalanche.strategies import METHODS, RebLL, get_method


def tiny_benchmark(scenario: str, side: int = 8):
    """Small images whose colours say which of four classes are present."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(24, 4, generator=generator) < 0.4).float()
    labels[torch.arange(24), torch.arange(24) % 4] = 1.0
    colours = labels @ torch.rand(4, 3, generator=generator)
    inputs = colours[:, :, None, None] + 0.1 * torch.rand(24, 3, side, side, generator=generator)
    return multilabel_benchmark((inputs, labels), (inputs, labels), scenario)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_a_stream(name):
    torch.manual_seed(0)
    method = METHODS[name]
    # Prompts need a transformer, and transformers the image size that they were made for.
    backbone, side = ("test_vit", 160) if method.head in ("l2p", "lanes") else ("small_cnn", 8)
    model = build_model(backbone, head=method.head)
    strategy = method.build(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        train_mb_size=8,
        eval_mb_size=16,
        train_epochs=1,
        **({"mem_size": 6} if method.uses_memory else {}),
    )
    benchmark = tiny_benchmark("B4-C0" if method.joint else "B2-C1", side)
    results = run_stream(strategy, benchmark)
    assert [step.classes_seen for step in results] == ([4] if method.joint else [2, 3, 4])
    for step in results:
        assert {"mAP", "CF1@0.8", "OF1@0.8", "FPR@0.8", "AvgmAP"} <= step.metrics.keys()
        assert all(math.isfinite(value) for value in step.metrics.values())
        assert 0 < step.metrics["mAP"] <= 1
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_a_method_with_memory_obeys_the_budget():
    for name in ("rebll", "akd+replay", "der++"):
        model = build_model("small_cnn")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        strategy = METHODS[name].build(model=model, optimizer=optimizer, mem_size=5)
        for experience in tiny_benchmark("B2-C2").train_stream:
            strategy.train(experience)
        plugin = strategy.rebll if isinstance(strategy, RebLL) else strategy.der
        assert len(plugin.memory) == 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bce+kd", {"alpha": 0.0}),
        ("cls", {"lambda_akd": 1.0}),
        ("akd-fixed", {"alpha": 2.0, "exponent": "fixed"}),
    ],
)
def test_the_ablation_is_arguments_of_the_plugin(name, expected):
    model = build_model("small_cnn")
    strategy = METHODS[name].build(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)
    )
    assert type(strategy) is RebLL
    assert {key: getattr(strategy.rebll.akd, key) for key in expected} == expected
    assert strategy.rebll.memory.mem_size == 0


def test_a_wrong_name_is_answered_with_the_closest_first():
    with pytest.raises(ValueError, match=r"'finetuning'; there are fine-tuning, ") as error:
        get_method("finetuning")
    assert all(name in str(error.value) for name in METHODS)
    assert get_method("rebll") is METHODS["rebll"]
