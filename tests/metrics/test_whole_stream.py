"""Evaluating overlapping test sets together must not pass for a step of the stream."""

from __future__ import annotations

import torch

from rebll_avalanche.metrics import read_metrics
from rebll_avalanche.models import build_model
from rebll_avalanche.strategies import RebLL


def test_the_whole_stream_leaves_the_average_alone(vector_benchmark):
    torch.manual_seed(0)
    benchmark, model = vector_benchmark(), build_model("vector", in_features=6)
    strategy = RebLL(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    strategy.train(benchmark.train_stream[0])
    assert "AvgmAP" not in read_metrics(strategy.eval(benchmark.test_stream))
    alone = read_metrics(strategy.eval([benchmark.test_stream[0]]))
    assert alone["AvgmAP"] == alone["mAP"]
    again = read_metrics(strategy.eval(benchmark.test_stream))
    assert again["AvgmAP"] == alone["AvgmAP"]
