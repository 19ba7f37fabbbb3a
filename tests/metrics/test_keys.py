"""Metric names, there and back."""

from __future__ import annotations

import pytest

from rebll_avalanche.metrics import metric_key, read_metrics


def test_names_survive_the_way_through_results() -> None:
    names = ["mAP", "CF1@0.8", "AP_003", "AP_potted plant", "AP_tv/monitor"]
    results = {metric_key(name, "test"): 0.1 * place for place, name in enumerate(names)}
    assert read_metrics(results) == {name: 0.1 * place for place, name in enumerate(names)}


def test_only_numbers_of_whole_evaluations_are_read() -> None:
    results = {
        metric_key("mAP", "test"): 0.5,
        metric_key("mAP", "test", experience=1): 0.1,
        "Loss_Stream/eval_phase/test_stream/Task000": 2,
        "Loss_Epoch/train_phase/train_stream": 0.3,
        "Picture_Stream/eval_phase/test_stream": object(),
    }
    assert read_metrics(results) == {"mAP": 0.5, "Loss": 2.0}


def test_the_stream_is_test_or_the_only_one_or_the_one_asked_for() -> None:
    test, train, valid = (metric_key("mAP", stream) for stream in ("test", "train", "valid"))
    assert read_metrics({train: 0.9, test: 0.5}) == {"mAP": 0.5}
    assert read_metrics({valid: 0.4}) == {"mAP": 0.4}
    assert read_metrics({train: 0.9, test: 0.5}, stream="train") == {"mAP": 0.9}
    assert read_metrics({test: 0.5}, stream="valid") == {}
    assert read_metrics({}) == {}
    with pytest.raises(ValueError, match="streams train, valid; choose one"):
        read_metrics({train: 0.9, valid: 0.4})
