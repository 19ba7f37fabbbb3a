"""Bounds and Avalanche's own strategies on partial labels."""

from __future__ import annotations

import pytest
import torch
from avalanche.training.plugins import EWCPlugin, SupervisedPlugin
from avalanche.training.storage_policy import ReservoirSamplingBuffer
from avalanche.training.supervised import EWC, Cumulative, Replay

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.labels import PartialLabelBCE, annotated
from rebll_avalanche.metrics.plugin import MultiLabelMetrics
from rebll_avalanche.models import build_model
from rebll_avalanche.strategies import BufferReplay, FineTuning, adopt


def build(strategy, **options):
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return strategy(model=model, optimizer=optimizer, train_mb_size=8, **options)


class Batches(SupervisedPlugin):
    """Keeps the labels of every training batch."""

    def __init__(self):
        super().__init__()
        self.labels = []

    def before_backward(self, strategy, **kwargs):
        self.labels.append(strategy.mb_y.clone())


def test_fine_tuning_leaves_the_rows_of_old_classes_alone(vector_benchmark):
    strategy = build(FineTuning)
    stream = vector_benchmark("B2-C2").train_stream
    strategy.train(stream[0])
    before = strategy.model.head.weight.detach().clone()
    strategy.train(stream[1])
    assert torch.equal(strategy.model.head.weight[:2], before)


def test_joint_is_fine_tuning_on_one_experience_with_all_labels(vector_benchmark):
    benchmark = vector_benchmark("B4-C0")
    batches = Batches()
    strategy = build(FineTuning, plugins=[batches])
    assert len(benchmark.train_stream) == 1
    strategy.train(benchmark.train_stream[0])
    assert annotated(torch.cat(batches.labels)).all()


def test_cumulative_sees_each_experience_with_its_own_labels(vector_benchmark):
    batches = Batches()
    strategy = build(lambda **options: adopt(Cumulative, **options), plugins=[batches])
    stream = vector_benchmark("B2-C2").train_stream
    for experience in stream:
        batches.labels.clear()
        strategy.train(experience)
    labels = annotated(torch.cat(batches.labels))
    assert len(labels) == sum(len(experience.dataset) for experience in stream)
    first, second = (labels == torch.tensor(mask) for mask in ([1, 1, 0, 0], [0, 0, 1, 1]))
    assert int(first.all(dim=1).sum()) == len(stream[0].dataset)
    assert int(second.all(dim=1).sum()) == len(stream[1].dataset)


@pytest.mark.parametrize(
    "strategy",
    [
        lambda **options: adopt(Replay, mem_size=6, **options),
        lambda **options: BufferReplay(mem_size=6, **options),
    ],
    ids=["Avalanche's Replay", "BufferReplay"],
)
def test_replayed_images_keep_the_labels_they_came_with(vector_benchmark, strategy):
    batches = Batches()
    strategy = build(strategy, plugins=[batches])
    stream = vector_benchmark("B2-C2").train_stream
    strategy.train(stream[0])
    batches.labels.clear()
    before = strategy.model.head.weight.detach().clone()
    strategy.train(stream[1])
    for labels in batches.labels:
        old, new = annotated(labels[:, :2]), annotated(labels[:, 2:])
        # Nobody is annotated for both: current rows first, then at most six from memory.
        assert (old.all(dim=1) ^ new.all(dim=1)).all()
        assert 0 < int(old.all(dim=1).sum()) <= 6
    assert not torch.equal(strategy.model.head.weight[:2], before)
    assert torch.isfinite(strategy.model.head.weight).all()


def test_a_reservoir_of_avalanche_is_the_default_buffer():
    assert isinstance(build(BufferReplay).replay.storage_policy, ReservoirSamplingBuffer)
    assert build(BufferReplay, mem_size=7).replay.storage_policy.max_size == 7


@pytest.mark.parametrize(
    "strategy", [lambda **options: adopt(Replay, **options), BufferReplay, FineTuning]
)
def test_the_users_list_of_plugins_is_left_alone(strategy):
    plugins = [Batches()]
    built = build(strategy, plugins=plugins)
    assert len(plugins) == 1
    assert plugins[0] in built.plugins


def test_the_defaults_suit_partial_labels():
    strategy = build(lambda **options: adopt(EWC, ewc_lambda=1.0, **options))
    assert isinstance(strategy._criterion, PartialLabelBCE)
    assert strategy.eval_mb_size == 8
    assert any(isinstance(metric, MultiLabelMetrics) for metric in strategy.evaluator.metrics)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_ewc_counts_old_parameters_only_while_the_head_grows():
    """Avalanche pads what it saved of the head with zeros of importance."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(24, 3, 8, 8, generator=generator)
    labels = torch.eye(4)[torch.arange(24) % 4]
    stream = multilabel_benchmark((inputs, labels), (inputs, labels), "B2-C2").train_stream
    penalties = []

    class Probe(SupervisedPlugin):
        def before_backward(self, strategy, **kwargs):
            ewc = next(p for p in strategy.plugins if isinstance(p, EWCPlugin))
            penalty = 0.0
            for name, parameter in strategy.model.named_parameters():
                if saved:
                    old, importance = saved[name], ewc.importances[0][name].data
                    grown = parameter[: len(old)].detach()
                    importance = importance[: len(old)]
                    penalty += (importance * (grown - old).square()).sum().item()
            base = PartialLabelBCE()(strategy.mb_output, strategy.mb_y).item()
            assert strategy.loss.item() == pytest.approx(base + 1e4 * penalty, rel=1e-4)
            penalties.append(penalty)

    torch.manual_seed(0)
    model = build_model("small_cnn")
    strategy = adopt(
        EWC,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.02),
        ewc_lambda=1e4,
        train_mb_size=8,
        train_epochs=3,
    )
    strategy.plugins.append(Probe())
    saved: dict[str, torch.Tensor] = {}
    strategy.train(stream[0])
    saved = {name: p.detach().clone() for name, p in model.named_parameters()}
    penalties.clear()
    strategy.train(stream[1])
    assert penalties[0] == 0
    assert min(penalties[1:]) > 0
    assert model.num_classes == 4
