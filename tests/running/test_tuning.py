"""What a run finds out about its network before it begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.sections import BenchmarkConfig, TrainingConfig
from rebll_avalanche.models import build_model
from rebll_avalanche.running import tuning
from rebll_avalanche.running.run import run_experiment
from rebll_avalanche.running.tuning import as_recorded, with_choice

EXPERIENCES: list[Any] = [type("Experience", (), {"dataset": range(6400)})]


def config(**training: Any) -> Config:
    scenes = BenchmarkConfig(scenario="B10-C10", train_size=60, test_size=60, image_size=16)
    return Config(benchmark=scenes, training=TrainingConfig(epochs=1, batch_size=32, **training))


def test_a_short_run_does_not_look_at_a_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "_seconds", lambda work: pytest.fail("a step was timed"))
    run_experiment(config(), tmp_path / "run")
    written = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert written["training"]["channels_last"] is True
    assert written["training"]["compile"] is False
    assert written["environment"]["milliseconds_per_step"] == {}


def test_measuring_leaves_weights_and_random_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "FEWEST_STEPS", 1)
    model = build_model("small_cnn")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    _, tried = with_choice(config(), model, (3, 16, 16), EXPERIENCES)
    assert torch.equal(torch.rand(2), expected)
    assert set(tried) == {"channels last", "contiguous"}
    assert all(value > 0 for value in tried.values())
    after = model.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(("contiguous", "chosen"), [(89.0, False), (95.0, True), (120.0, True)])
def test_the_usual_layout_gives_way_to_a_clearly_faster_one(
    monkeypatch: pytest.MonkeyPatch, contiguous: float, chosen: bool
) -> None:
    monkeypatch.setattr(tuning, "FEWEST_STEPS", 1)
    monkeypatch.setattr(tuning, "SHORTEST_TO_COMPILE", float("inf"))
    times = {"channels last": 100.0, "contiguous": contiguous}
    monkeypatch.setattr(tuning, "_milliseconds", lambda *_: dict(times))
    model = build_model("small_cnn")
    found, _ = with_choice(config(), model, (3, 16, 16), EXPERIENCES)
    assert found.training.channels_last is chosen
    assert model.channels_last is chosen
    assert not found.training.compile


def test_what_is_given_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "FEWEST_STEPS", 1)
    monkeypatch.setattr(tuning, "_seconds", lambda work: pytest.fail("a step was timed"))
    for given in ({"channels_last": False}, {"tuning": "off"}):
        model = build_model("small_cnn")
        found, _ = with_choice(config(**given), model, (3, 16, 16), EXPERIENCES)
        assert found.training.channels_last is given.get("channels_last", True)
        assert model.channels_last is found.training.channels_last


def test_a_resumed_run_takes_what_was_found_out_before() -> None:
    begun = replace(
        config(), training=replace(config().training, channels_last=False, compile=True)
    )
    resumed = as_recorded(config(), begun.to_dict())
    assert resumed.training == begun.training
    other = as_recorded(config(channels_last=True), begun.to_dict())
    assert other.training.channels_last is True
