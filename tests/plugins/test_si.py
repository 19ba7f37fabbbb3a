"""Synaptic Intelligence with and without copies of the weights."""

from __future__ import annotations

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin, SynapticIntelligencePlugin

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins.si import CopyingSIPlugin
from rebll_avalanche.strategies import FineTuning

pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")


def penalties(plugin) -> list[float]:
    """What the plugin adds to the loss of every step of the second experience."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(24, 3, 8, 8, generator=generator)
    labels = torch.eye(4)[torch.arange(24) % 4]
    stream = multilabel_benchmark((inputs, labels), (inputs, labels), "B2-C2").train_stream
    added: list[float] = []

    class Probe(SupervisedPlugin):
        def before_backward(self, strategy, **kwargs):
            base = PartialLabelBCE()(strategy.mb_output, strategy.mb_y)
            added.append((strategy.loss - base).item())

    torch.manual_seed(0)
    model = build_model("small_cnn")
    strategy = FineTuning(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.02),
        plugins=[plugin, Probe()],
        train_mb_size=8,
        train_epochs=3,
    )
    strategy.train(stream[0])
    added.clear()
    strategy.train(stream[1])
    return added


def test_avalanches_own_adds_nothing_on_a_cpu():
    """The day this fails, Avalanche copies and the plugin here can go."""
    assert set(penalties(SynapticIntelligencePlugin(si_lambda=1e3))) == {0.0}


def test_with_copies_moving_away_costs_more_and_more():
    added = penalties(CopyingSIPlugin(si_lambda=1e3))
    assert added[0] == pytest.approx(0.0, abs=1e-6)
    assert added[-1] > added[1] > 0


def test_the_penalty_is_the_weighted_square_of_the_distance():
    plugin = CopyingSIPlugin(si_lambda=50.0)
    penalties(plugin)
    model = build_model("small_cnn")
    model.head.grow(4)
    expected = 0.0
    for name, parameter in model.named_parameters():
        if name in plugin.ewc_data[0]:
            anchor, importance = plugin.ewc_data[0][name].data, plugin.ewc_data[1][name].data
            distance = parameter.detach().flatten() - anchor
            expected += 25.0 * (importance * distance.square()).sum().item()
    loss = plugin.compute_ewc_loss(model, plugin.ewc_data, set(), device="cpu", lambd=50.0)
    assert expected != 0
    assert loss.item() == pytest.approx(expected, rel=1e-4)
