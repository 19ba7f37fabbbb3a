"""Loss terms, label shares and false positives, once per epoch, in Avalanche's loggers' terms."""

from __future__ import annotations

import pytest
import torch
from avalanche.training.plugins import EvaluationPlugin

from rebll_avalanche.metrics.training import TrainingTerms
from rebll_avalanche.models import build_model
from rebll_avalanche.strategies import RebLL


def test_terms_of_every_epoch(vector_benchmark):
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    metric = TrainingTerms()
    evaluator = EvaluationPlugin(metric, collect_all=True)
    strategy = RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        mem_size=6,
        train_mb_size=100,
        train_epochs=3,
        evaluator=evaluator,
    )
    for experience in vector_benchmark().train_stream[:2]:
        strategy.train(experience)
    history = evaluator.get_all_metrics()
    ending = "_Epoch/train_phase/train_stream"
    assert len(history["LossTerm_cls" + ending][1]) == 6
    assert len(history["LossTerm_akd" + ending][1]) == 3
    assert len(history["LossTerm_er" + ending][1]) == 3
    # One batch per epoch: the mean is the last value itself.
    for name, value in strategy.rebll.terms.last.items():
        assert history[f"LossTerm_{name}{ending}"][1][-1] == pytest.approx(value.item())
    last = {name: values[1][-1] for name, values in history.items()}
    shares = [value for name, value in last.items() if name.startswith("LabelShare")]
    assert sum(shares) == pytest.approx(1.0)
    assert 0 <= last["FPR@0.5" + ending] <= 1


def test_false_positive_rate_by_hand():
    metric = TrainingTerms(threshold=0.5)

    class Strategy:
        mb_output = torch.tensor([[2.0, -1.0, 3.0]])
        mb_y = torch.tensor([[0.0, 0.0, float("nan"), 1.0]])

    assert metric.result() is None
    metric.after_training_iteration(Strategy())
    metric.after_training_iteration(Strategy())
    assert metric.result() == 0.5
