"""What Avalanche offers for one class per image is refused by name, before the first update."""

from __future__ import annotations

import pytest
import torch
from avalanche.models import IncrementalClassifier, MultiHeadClassifier
from avalanche.training import DER, ER_ACE, GEM, MAS, MIR, GDumb, LwF, Naive
from avalanche.training.plugins import LwFPlugin, ReplayPlugin
from avalanche.training.storage_policy import ClassBalancedBuffer, ReservoirSamplingBuffer
from torch import nn

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins import SigmoidLwFPlugin, SoftmaxLwFPlugin


def build(strategy_class, model=None, evaluator=multilabel_evaluator, **options):
    model = model or build_model("vector", in_features=6)
    return strategy_class(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train_mb_size=8,
        evaluator=evaluator() if evaluator else None,
        **({"criterion": PartialLabelBCE()} | options),
    )


@pytest.mark.parametrize(
    ("strategy_class", "options", "name"),
    [
        (LwF, {"alpha": 1.0, "temperature": 2.0}, "LwFPlugin.*SigmoidLwFPlugin"),
        (GDumb, {"mem_size": 5}, "GDumbPlugin.*er-reservoir"),
        (MIR, {"mem_size": 5, "subsample": 5}, "MIRPlugin.*er-reservoir"),
        (DER, {"mem_size": 5}, r"DER.*der\+\+"),
        (ER_ACE, {"mem_size": 5}, "ER_ACE.*er-reservoir"),
        (Naive, {"model": MultiHeadClassifier(6, 2)}, "MultiHeadClassifier.*build_model"),
        (
            Naive,
            {"plugins": [ReplayPlugin(5, storage_policy=ClassBalancedBuffer(5))]},
            "ClassBalancedBuffer.*PolicyBuffer",
        ),
        # A plugin of this package looks too, whatever the evaluator is.
        (
            Naive,
            {"plugins": [SigmoidLwFPlugin(), LwFPlugin()], "evaluator": None},
            "LwFPlugin.*SigmoidLwFPlugin",
        ),
    ],
)
def test_one_class_per_image_is_refused_by_name(vector_benchmark, strategy_class, options, name):
    strategy = build(strategy_class, **options)
    before = [parameter.clone() for parameter in strategy.model.parameters()]
    with pytest.raises(ValueError, match=f"Avalanche's {name}"):
        strategy.train(vector_benchmark().train_stream[0])
    after = list(strategy.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {"model": IncrementalClassifier(6, 2)},
        {"plugins": [SoftmaxLwFPlugin()]},
        {"plugins": [ReplayPlugin(5, storage_policy=ReservoirSamplingBuffer(5))]},
    ],
)
def test_what_works_is_let_through(vector_benchmark, options):
    strategy = build(Naive, **options)
    for experience in vector_benchmark().train_stream:
        strategy.train(experience)


@pytest.mark.parametrize(
    ("strategy_class", "options", "name"),
    [
        (GEM, {"patterns_per_exp": 4}, "GEMPlugin"),
        (MAS, {}, "MASPlugin"),
    ],
)
def test_who_needs_labels_says_so(strategy_class, options, name):
    x, y = torch.randn(8, 6), torch.eye(2).repeat(4, 1)
    benchmark = multilabel_benchmark((x, y), (x, y), [(range(4), [0, 1]), (range(4, 8), [])])
    strategy = build(strategy_class, model=nn.Linear(6, 2), **options)
    strategy.train(benchmark.train_stream[0])
    with pytest.raises(ValueError, match=f"{name} needs a loss.*experience 1 has no label"):
        strategy.train(benchmark.train_stream[1])


@pytest.mark.parametrize("plugins", [[], [SigmoidLwFPlugin()]])
def test_advice_about_plain_losses_works(vector_benchmark, plugins):
    """Step by step as the messages say: a plain loss, zeros for unknown labels, then PartialLabelBCE."""
    plain = {"criterion": nn.BCEWithLogitsLoss(), "plugins": plugins}
    with pytest.raises(ValueError, match="missing='negative', and still use PartialLabelBCE"):
        build(Naive, **plain).train(vector_benchmark().train_stream[0])
    zeros = vector_benchmark(missing="negative")
    with pytest.raises(ValueError, match="cannot compare 2 outputs with labels of 4 classes"):
        build(Naive, **plain).train(zeros.train_stream[0])
    fixed = build(Naive, model=nn.Linear(6, 4), **plain)
    growing = build(Naive, plugins=plugins)
    for strategy in (fixed, growing):
        for train, test in zip(zeros.train_stream, zeros.test_stream, strict=True):
            strategy.train(train)
            strategy.eval([test])
