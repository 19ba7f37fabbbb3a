"""What counts as the number of a step."""

from __future__ import annotations

import io

import pytest
import torch

from rebll_avalanche.metrics.history import StepHistory


def ap(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def trained(history: StepHistory, step: int) -> StepHistory:
    history.training_goes_on()
    history.training_ended(step)
    return history


def test_the_first_evaluation_of_the_step_counts_and_no_other() -> None:
    history = StepHistory()
    assert not history.add("test", [0], ap(0.1))  # before any training
    trained(history, 0)
    assert history.values("test") == {}
    assert not history.add("test", [1], ap(0.2))  # another experience
    assert history.add("test", [0], ap(0.6))
    assert history.add("test", [0, 1, 2], ap(0.3))  # repeated
    assert history.values("test") == {"AvgmAP": 0.6}


def test_steps_are_averaged_and_old_classes_compared() -> None:
    history = StepHistory()
    trained(history, 0).add("test", [0], ap(0.6, 0.8))
    trained(history, 1).add("test", [1], ap(0.4, 0.6, 0.2))
    assert history.values("test") == pytest.approx({"AvgmAP": 0.55, "Forgetting": 0.2})


def test_streams_do_not_mix() -> None:
    history = trained(StepHistory(), 0)
    history.add("test", [0], ap(0.6))
    history.add("train", [0], ap(1.0))
    assert history.values("test") == {"AvgmAP": 0.6}
    assert history.values("train") == {"AvgmAP": 1.0}
    assert history.values("valid") == {}


def test_an_evaluation_behind_the_last_update_counts_when_the_step_ends() -> None:
    history = StepHistory()
    history.training_goes_on()
    history.add("test", [0], ap(0.1))
    history.training_goes_on()  # one more update: that number is out of date
    history.add("test", [0], ap(0.7))
    history.add("train", [1], ap(0.9))
    assert history.training_ended(0) == ["test"]
    assert history.values("test") == {"AvgmAP": 0.7}


def test_a_stream_of_one_experience_is_the_test_of_every_step() -> None:
    history = StepHistory()
    for step, value in enumerate([0.8, 0.6]):
        assert trained(history, step).add("test", None, ap(value))
    assert history.values("test")["AvgmAP"] == pytest.approx(0.7)


def test_training_again_opens_the_step_again() -> None:
    history = trained(StepHistory(), 0)
    history.add("test", [0], ap(0.2))
    trained(history, 0).add("test", [0], ap(0.8))
    assert history.values("test") == {"AvgmAP": 0.8}


def test_a_resumed_history_goes_on() -> None:
    history = trained(StepHistory(), 0)
    history.add("test", [0], ap(0.8))
    trained(history, 1)
    stored = io.BytesIO()
    torch.save(history.state_dict(), stored)
    stored.seek(0)
    resumed = StepHistory()
    resumed.load_state_dict(torch.load(stored, weights_only=True))
    for one in (history, resumed):
        one.add("test", [1], ap(0.5, 0.7))
    assert resumed.values("test") == history.values("test")
    assert resumed.values("test") == pytest.approx({"AvgmAP": 0.7, "Forgetting": 0.3})
