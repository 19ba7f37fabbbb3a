"""RebLL in a network of one's own: it learns, or is refused before anything is trained."""

from __future__ import annotations

import pytest
import torch
from avalanche.models import IncrementalClassifier
from avalanche.training.supervised import Naive
from torch import Tensor, nn

from rebll_avalanche import MultiLabelScenes, PartialLabelBCE, RebLLPlugin
from rebll_avalanche.models import GrowingLinear, MultiLabelModel


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


def trained(model, benchmark, **options):
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        criterion=PartialLabelBCE(),
        train_mb_size=16,
        plugins=[RebLLPlugin(mem_size=6, **options)],
    )
    for experience in benchmark.train_stream[:2]:
        strategy.train(experience)
    return strategy


def test_too_few_outputs_are_refused_at_the_start(benchmark):
    model = Own(nn.Linear(32, 5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"Own has 5 outputs .* 20 classes; give it 20 .*Growing"):
        trained(model, benchmark)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training


def test_a_head_that_cannot_be_solved_is_refused_at_the_start(benchmark):
    model = Own(nn.Linear(32, 20))
    with pytest.raises(ValueError, match=r"head Linear lacks features, has_windows, head\.grow;"):
        trained(model, benchmark, preset="best")
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("head", [nn.Linear(32, 20), GrowingLinear(32), IncrementalClassifier(32)])
def test_all_outputs_or_a_head_that_grows_will_do(benchmark, head):
    assert len(trained(Own(head), benchmark).plugins[0].memory) == 6


def test_the_way_out_of_the_message_works(benchmark):
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU())
    model = MultiLabelModel(backbone, GrowingLinear(32))
    assert len(trained(model, benchmark, preset="best").plugins[0].memory) == 6
