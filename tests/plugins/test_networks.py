"""Methods in a network of one's own: they learn, or are refused before anything is trained."""

from __future__ import annotations

import pytest
import torch
from avalanche.models import IncrementalClassifier
from avalanche.training.supervised import Naive
from torch import Tensor, nn

from rebll_avalanche import MultiLabelScenes, PartialLabelBCE
from rebll_avalanche.models import GrowingLinear, MultiLabelModel
from rebll_avalanche.plugins import (
    AGCNPlugin,
    AKDPlugin,
    CSCPlugin,
    DERPlusPlusPlugin,
    KRTPlugin,
    L2PPlugin,
    LabelGraphPlugin,
    LanesPlugin,
    OnlineRelabelPlugin,
    PODPlugin,
    RebLLPlugin,
    SigmoidLwFPlugin,
    SoftmaxLwFPlugin,
)
from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.plugins.networks import CheckNetworkPlugin
from rebll_avalanche.plugins.si import CopyingSIPlugin
from rebll_avalanche.strategies.registry import BUILT_IN


@pytest.fixture(scope="module")
def benchmark():
    return MultiLabelScenes("B5-C5", train_size=60, test_size=40, image_size=8)


class Own(nn.Module):
    """A network as somebody brings it."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.head = head

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(images))
        return logits


class OwnBackbone(Own):
    """The same, with the attribute that PODNet distils."""

    @property
    def backbone(self) -> nn.Module:
        return self.body


def trained(model, benchmark, plugin):
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        criterion=PartialLabelBCE(),
        train_mb_size=16,
        plugins=[plugin],
    )
    for experience in benchmark.train_stream[:2]:
        strategy.train(experience)
    return strategy


def refused(model, benchmark, make, message):
    """Training is refused with the message and has changed nothing."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        make()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training


TOO_NARROW = r"has 5 outputs .* 20 classes; give it 20 .*Growing"
NEEDS_A_NETWORK = {  # plugins for one kind of network, and what their refusal says
    KRTPlugin: "cross_attention",
    AGCNPlugin: "agcn",
    LabelGraphPlugin: "agcn",
    L2PPlugin: "l2p",
    LanesPlugin: "lanes",
    ClosedFormPlugin: r"lacks features, has_windows, head\.grow; .* head='linear'",
}
BY_NAME = {"agcn": "agcn", "krt": "cross_attention", "krt-r": "cross_attention"}
ANY_NETWORK = [
    *(RebLLPlugin, AKDPlugin, OnlineRelabelPlugin, CSCPlugin, SigmoidLwFPlugin, SoftmaxLwFPlugin),
    *(DERPlusPlusPlugin, PODPlugin, CopyingSIPlugin, CheckNetworkPlugin),
]


@pytest.mark.parametrize("plugin", ANY_NETWORK)
def test_a_plugin_refuses_too_few_outputs_at_the_start(benchmark, plugin):
    model = OwnBackbone(nn.Linear(32, 5))
    refused(model, benchmark, lambda: trained(model, benchmark, plugin()), TOO_NARROW)


@pytest.mark.parametrize("plugin", ANY_NETWORK)
def test_a_plugin_learns_in_a_network_with_all_outputs(benchmark, plugin):
    model = OwnBackbone(nn.Linear(32, 20))
    before = model.head.weight.clone()
    trained(model, benchmark, plugin())
    changed = (model.head.weight != before).any(dim=1)
    assert changed[5:10].all()  # the classes of the second experience


@pytest.mark.parametrize("plugin", NEEDS_A_NETWORK)
def test_a_plugin_says_which_network_it_needs(benchmark, plugin):
    model = OwnBackbone(nn.Linear(32, 20))
    message = NEEDS_A_NETWORK[plugin]
    refused(model, benchmark, lambda: trained(model, benchmark, plugin()), message)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_refuses_too_few_outputs_at_the_start(benchmark, name):
    model = OwnBackbone(nn.Linear(32, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    strategy = BUILT_IN[name].build(model=model, optimizer=optimizer, train_mb_size=16)
    solved = name in ("l3a", "rebll-best") or "closed-form" in name
    message = r"lacks .*head\.grow" if solved else BY_NAME.get(name, TOO_NARROW)
    refused(model, benchmark, lambda: strategy.train(benchmark.train_stream[0]), message)


def test_a_head_that_cannot_be_solved_is_refused_at_the_start(benchmark):
    model = Own(nn.Linear(32, 20))
    refused(
        model,
        benchmark,
        lambda: trained(model, benchmark, RebLLPlugin(preset="best")),
        r"head Linear lacks features, has_windows, head\.grow; .* or use preset='paper'",
    )


@pytest.mark.parametrize("head", [nn.Linear(32, 20), GrowingLinear(32), IncrementalClassifier(32)])
def test_all_outputs_or_a_head_that_grows_will_do(benchmark, head):
    assert len(trained(Own(head), benchmark, RebLLPlugin(mem_size=6)).plugins[0].memory) == 6


def test_the_way_out_of_the_message_works(benchmark):
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU())
    model = MultiLabelModel(backbone, GrowingLinear(32))
    plugin = RebLLPlugin(mem_size=6, preset="best")
    assert len(trained(model, benchmark, plugin).plugins[0].memory) == 6
