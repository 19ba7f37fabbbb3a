"""The plugin changes what was learned, in streams of any columns, and solves again."""

import pytest
import torch

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.models import build_model
from rebll_avalanche.strategies.closed_form import ClosedForm

FEATURES, CLASSES = 8, 6


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(FEATURES, CLASSES, generator=generator)
    inputs = torch.randn(180, FEATURES, generator=generator)
    labels = (inputs @ direction + torch.randn(180, CLASSES, generator=generator) > 2).float()
    labels[torch.arange(180), torch.arange(180) % CLASSES] = 1.0
    return inputs, labels


def learned(data, scenario="B2-C2", only=None, **options):
    """A strategy after a stream, or after some experiences of it."""
    split = {name: options.pop(name) for name in ("mode", "seed") if name in options}
    benchmark = multilabel_benchmark(data, data, scenario, **split)
    model = build_model("vector", in_features=FEATURES)
    strategy = ClosedForm(model=model, evaluator=None, **({"gamma": 2.0} | options))
    for experience in benchmark.train_stream:
        if only is None or experience.current_experience in only:
            strategy.train(experience)
    return strategy, benchmark


def joint(data):
    """All labels of all images at once."""
    return learned(data, [list(range(CLASSES))])[0]


def assert_same_rows(strategy, other, classes=CLASSES):
    found, wanted = (
        part.closed_form.learner.head_so_far()[0].weight[:, :classes] for part in (strategy, other)
    )
    assert torch.allclose(found, wanted, atol=1e-8, rtol=0)


def test_labels_in_any_column_end_at_the_regression_on_all_of_them(data):
    """New classes, known ones, more of the same, other labels of images that came before."""
    everything = list(range(180))
    stream = [
        (everything[:120], [0, 1]),
        (everything[60:], [0, 2, 3]),
        (everything[100:], [1, 0]),
        (everything[:60], [3, 2]),
        (everything, [4, 5]),
    ]
    strategy, _ = learned(data, stream)
    assert_same_rows(strategy, joint(data))
    assert strategy.closed_form.sums.images == 180


def test_wrong_labels_are_corrected(data):
    inputs, labels = data
    wrong = labels.clone()
    wrong[:20] = 1 - wrong[:20]
    wrong[:20, 0] = 1.0  # an image without any class is in no experience
    strategy, _ = learned((inputs, wrong), [list(range(CLASSES))])
    strategy.closed_form.correct(strategy.model, inputs[:20], labels[:20])
    assert_same_rows(strategy, joint(data))
    rows = strategy.closed_form.scores().weight.T.float()
    assert torch.allclose(strategy.model.head.weight, rows)


@pytest.mark.parametrize("keep", ["labels", "vectors"])
def test_an_experience_is_forgotten(data, keep):
    strategy, benchmark = learned(data, keep=keep, unknown="negative")
    given = 1 if keep == "vectors" else benchmark.train_stream[1]
    strategy.closed_form.forget_experience(strategy.model, given)
    other, _ = learned(data, only=(0, 2), keep=keep, unknown="negative")
    assert_same_rows(strategy, other)


def test_images_and_classes_are_forgotten(data):
    inputs, labels = data
    strategy, _ = learned(data)
    strategy.closed_form.forget_images(strategy.model, inputs[:30])
    assert_same_rows(strategy, learned((inputs[30:], labels[30:]))[0])
    strategy.closed_form.forget_classes(strategy.model, [1])
    assert not bool(strategy.closed_form.scores().weight[:, 1].any())
    assert bool((strategy.model.eval()(inputs)[:, 1].sigmoid() < 0.05).all())


def test_two_strategies_become_one(data):
    options = {"mode": "once", "unknown": "negative"}
    whole, _ = learned(data, **options)
    first, _ = learned(data, only=(0,), **options)
    rest, _ = learned(data, only=(1, 2), **options)
    first.closed_form.merge(first.model, rest.closed_form)
    assert_same_rows(first, whole)
    assert first.model.num_classes == CLASSES


@pytest.mark.parametrize("mode", ["overlap", "disjoint", "once", "repetition"])
def test_the_stream_is_told_from_what_comes_again(data, mode):
    strategy, _ = learned(data, mode=mode)
    assert strategy.closed_form.learner.guess_share == (0.0 if mode == "overlap" else 0.5)


def test_a_pass_at_the_end_draws_nothing(data):
    """As after a run was stopped between its epoch and the end of the experience."""
    strategy, benchmark = learned(data, only=(0,))
    strategy.experience = benchmark.train_stream[1]
    strategy.model.head.grow(4)
    plugin = strategy.closed_form
    plugin.before_training_exp(strategy)
    before = torch.get_rng_state()
    plugin.after_training_exp(strategy)
    assert torch.equal(before, torch.get_rng_state())
    assert_same_rows(strategy, learned(data, only=(0, 1))[0], classes=4)
