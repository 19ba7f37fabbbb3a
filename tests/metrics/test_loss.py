"""The delayed loss is Avalanche's, to the last bit."""

from __future__ import annotations

import torch
from avalanche.evaluation.metrics import loss_metrics
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.templates import SupervisedTemplate

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.metrics.loss import DelayedMean, delayed_loss_metrics
from rebll_avalanche.models import build_model


def test_a_mean_of_nothing_and_of_something():
    mean = DelayedMean()
    assert mean.result() == 0
    mean.update(torch.tensor(1.0), 3)
    mean.update(torch.tensor(5.0), 1)
    assert mean.result() == 2
    mean.reset()
    assert mean.result() == 0


def test_names_and_values_are_avalanches(vector_benchmark):
    collected = []
    for metrics in (
        delayed_loss_metrics(),
        loss_metrics(epoch=True, experience=True, stream=True),
    ):
        benchmark = vector_benchmark()
        torch.manual_seed(0)
        model = build_model("vector", in_features=6)
        strategy = SupervisedTemplate(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            criterion=PartialLabelBCE(),
            train_mb_size=5,
            train_epochs=2,
            eval_mb_size=7,
            evaluator=EvaluationPlugin(*metrics),
        )
        for experience in benchmark.train_stream:
            strategy.train(experience)
            strategy.eval(benchmark.test_stream)
        collected.append(dict(strategy.evaluator.get_all_metrics()))
    assert len(collected[0]) == 5
    assert collected[0] == collected[1]
