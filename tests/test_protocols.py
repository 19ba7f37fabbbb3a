"""Avalanche is untyped to mypy, so that its strategies have what the protocols say is tested here."""

from __future__ import annotations

from typing import Any, get_origin, get_type_hints

import torch
from avalanche.training import Naive
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn
from torch.optim import Optimizer

from rebll_avalanche import protocols
from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.models import build_model

# What protocols.py itself imports for type checkers only.
NAMES = {"torch": torch, "Tensor": Tensor, "nn": nn, "Optimizer": Optimizer}


def check_fits(value: object, protocol: type) -> None:
    """Check that every attribute is there, and of the class that the protocol names."""
    for name, kind in get_type_hints(protocol, localns=NAMES).items():
        assert hasattr(value, name), f"{type(value).__name__} lacks {name}"
        kind, found = get_origin(kind) or kind, getattr(value, name)
        if kind is Any or is_protocol(kind):
            continue
        assert isinstance(found, kind), f"{name} is {type(found).__name__}, not {kind.__name__}"


def is_protocol(kind: type) -> bool:
    return kind.__module__ == protocols.__name__


class Looks(SupervisedPlugin):
    def __init__(self):
        super().__init__()
        self.looked = []

    def before_backward(self, strategy, **kwargs):
        self._look(strategy)

    def after_eval_iteration(self, strategy, **kwargs):
        self._look(strategy)

    def _look(self, strategy):
        check_fits(strategy, protocols.Strategy)
        check_fits(strategy.clock, protocols.Clock)
        check_fits(strategy.experience, protocols.Experience)
        stream = strategy.experience.origin_stream
        check_fits(stream, protocols.Stream)
        assert len(stream) == len(list(stream)) == 3
        assert stream[0] is strategy.experience
        assert strategy.mb_x is strategy.mbatch[0]
        assert strategy.mb_y is strategy.mbatch[1]
        self.looked.append(strategy.is_training)


def test_a_strategy_of_avalanche_has_what_hooks_use(vector_benchmark):
    benchmark = vector_benchmark()
    model, plugin = build_model("vector", in_features=6), Looks()
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=PartialLabelBCE(),
        train_mb_size=64,
        plugins=[plugin],
        evaluator=multilabel_evaluator(),
    )
    strategy.train(benchmark.train_stream[0])
    strategy.eval(benchmark.test_stream[:1])
    assert set(plugin.looked) == {True, False}
