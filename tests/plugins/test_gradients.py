"""Options of training that leave results as they are, up to rounding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rebll_avalanche.benchmarks import MultiLabelBenchmark, MultiLabelScenes
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.running.network import build_network
from rebll_avalanche.running.run import run_experiment

Settings = Callable[..., Config]


def final_weights(config: Config, folder: Path, benchmark: MultiLabelBenchmark) -> dict[str, Any]:
    run_experiment(config, folder, benchmark=benchmark)
    end = CheckpointFolder(folder / "checkpoint").newest().end
    weights: dict[str, Any] = end["strategy"]["model"]
    return weights


def largest_difference(first: dict[str, Any], second: dict[str, Any]) -> float:
    assert first.keys() == second.keys()
    return max(
        float((first[name].float() - second[name].float()).abs().max())
        for name in first
        if first[name].numel()
    )


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_accumulated_halves_are_whole_batches(
    optimizer: str, tmp_path: Path, vectors: MultiLabelBenchmark, settings: Settings
) -> None:
    whole, halves = (
        settings(
            "fine-tuning",
            training={
                "batch_size": size,
                "accumulate": steps,
                "schedule": "constant",
                "optimizer": optimizer,
            },
        )
        for size, steps in ((16, 1), (8, 2))
    )
    weights = [
        final_weights(config, tmp_path / str(config.training.accumulate), vectors)
        for config in (whole, halves)
    ]
    assert largest_difference(*weights) < 1e-5


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.05), ("float16", 0.01)])
def test_low_precision_stays_near_float32(
    precision: str,
    tolerance: float,
    tmp_path: Path,
    vectors: MultiLabelBenchmark,
    settings: Settings,
) -> None:
    exact = final_weights(settings(mem_size=6), tmp_path / "exact", vectors)
    config = settings(mem_size=6, training={"precision": precision})
    rough = final_weights(config, tmp_path / "rough", vectors)
    assert 0 < largest_difference(exact, rough) < tolerance
    assert all(value.dtype != getattr(torch, precision) for value in rough.values())


def test_logits_are_float32_in_any_precision(settings: Settings) -> None:
    model = build_network(settings(training={"precision": "bfloat16"}), (8,))
    model.head.grow(3)
    inputs = torch.randn(4, 8)
    rough = model(inputs)
    model.precision = None
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, model(inputs), atol=0.02, rtol=0.02)
    assert not torch.equal(rough, model(inputs))


def test_an_overflow_skips_the_step_and_halves_the_scale() -> None:
    from rebll_avalanche.plugins.gradients import GradientPlugin

    weight = torch.nn.Parameter(torch.ones(2))

    class Strategy:
        optimizer = torch.optim.Adam([weight], lr=0.1)
        loss = torch.zeros(1)

    strategy, plugin = Strategy(), GradientPlugin(scaled=True)
    start = plugin.scaler.get_scale()
    for factor, moved in ((float("inf"), False), (1.0, True)):
        before = weight.detach().clone()
        strategy.optimizer.zero_grad()
        strategy.loss = (weight * factor).sum().reshape(1)
        shown = strategy.loss
        plugin.before_backward(strategy)
        strategy.loss.backward()
        plugin.after_backward(strategy)
        plugin.before_update(strategy)
        strategy.optimizer.step()
        assert strategy.loss is shown
        assert torch.equal(weight, before) is not moved
    assert plugin.scaler.get_scale() == start / 2
    fresh = GradientPlugin(scaled=True)
    fresh.load_state_dict(plugin.state_dict())
    assert fresh.scaler.get_scale() == start / 2


@pytest.mark.parametrize("accumulate", [1, 2])
def test_whoever_clips_finds_averaged_and_unscaled_gradients(accumulate: int) -> None:
    from rebll_avalanche.plugins.gradients import GradientPlugin

    weight = torch.nn.Parameter(torch.zeros(1))
    strategy: Any = SimpleNamespace(
        optimizer=torch.optim.SGD([weight], lr=1.0),
        mb_x=torch.zeros(3),
        clock=SimpleNamespace(train_epoch_iterations=0),
        dataloader=range(2),
    )
    plugin = GradientPlugin(accumulate=accumulate, scaled=True)
    found = []
    for factor in (2.0, 6.0):
        strategy.optimizer.zero_grad()
        strategy.loss = (weight * factor).sum()
        plugin.before_backward(strategy)
        strategy.loss.backward()
        plugin.after_backward(strategy)
        found.append(None if weight.grad is None else weight.grad.item())
        plugin.before_update(strategy)
        strategy.optimizer.step()
        strategy.clock.train_epoch_iterations += 1
    assert found == ([2.0, 6.0] if accumulate == 1 else [None, 4.0])
    assert weight.item() == -8.0 if accumulate == 1 else -4.0


def small_images(settings: Settings, **training: Any) -> Config:
    config = settings(mem_size=4).to_dict()
    config["model"]["backbone"] = "small_cnn"
    config["training"] |= {"epochs": 1, "lr": 1e-3, "batch_size": 32} | training
    return Config.from_dict(config)


def test_channels_last_changes_rounding_only(tmp_path: Path, settings: Settings) -> None:
    scenes = MultiLabelScenes("B10-C10", train_size=60, test_size=60, image_size=16)
    plain, other = (
        final_weights(small_images(settings, channels_last=wanted), tmp_path / str(wanted), scenes)
        for wanted in (False, True)
    )
    assert largest_difference(plain, other) > 0
    # Adam's first steps are as long as the learning rate whatever the gradient, so rounding of a
    # gradient near zero may turn a step around.
    assert largest_difference(plain, other) < 10 * 1e-3


def test_a_compiled_backbone_changes_rounding_only(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Traced and differentiated as always; generating C++ would take longer than all other tests here.
    compile_as_always, compiled = torch.nn.Module.compile, []

    def compile_quickly(module: torch.nn.Module) -> None:
        compiled.append(module)
        compile_as_always(module, backend="aot_eager")

    monkeypatch.setattr(torch.nn.Module, "compile", compile_quickly)
    scenes = MultiLabelScenes("B10-C10", train_size=60, test_size=60, image_size=16)
    # Plain gradient descent: its steps are as small as what rounding does to a gradient.
    plain, other = (
        small_images(settings, optimizer="sgd", lr=0.1, compile=wanted) for wanted in (False, True)
    )
    weights = final_weights(plain, tmp_path / "plain", scenes)
    assert not compiled
    assert largest_difference(weights, final_weights(other, tmp_path / "other", scenes)) < 1e-5
    assert len(compiled) == 1
    start = build_network(plain, (3, 16, 16)).state_dict()
    moved = [name for name in start if "backbone" in name and "num_batches" not in name]
    assert max(float((weights[name] - start[name]).abs().max()) for name in moved) > 1e-3
