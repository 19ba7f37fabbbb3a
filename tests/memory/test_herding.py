"""Herding against a direct reading of what it says, and inside RebLL, DER++ and Avalanche's replay."""

from __future__ import annotations

import pytest
import torch
from avalanche.training import Naive
from avalanche.training.plugins import ReplayPlugin
from torch import nn

from rebll_avalanche import PartialLabelBCE, RebLL, build_model
from rebll_avalanche.memory.herding import Herding, described
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.plugins.buffer import PolicyBuffer
from rebll_avalanche.strategies import DERPlusPlus


def by_the_book(positive, features, means, wanted):
    """In plain Python: the class that has least gets the image that moves its mean closest."""
    chosen = []
    while len(chosen) < wanted:
        have = {c: [i for i in chosen if positive[i][c]] for c in range(len(means))}
        rest = {
            c: [i for i in range(len(features)) if positive[i][c] and i not in chosen] for c in have
        }
        column = min((c for c in have if rest[c]), key=lambda c: len(have[c]))
        distance = {}
        for image in rest[column]:
            mean = sum(features[i] for i in [*have[column], image]) / (len(have[column]) + 1)
            distance[image] = float((mean - means[column]).square().sum())
        chosen.append(min(distance, key=distance.__getitem__))
    return sorted(chosen)


def test_reads_like_its_description():
    torch.manual_seed(0)
    policy = Herding()
    first, second = (torch.randn(20, 5, dtype=torch.float64) for _ in range(2))
    old, new = torch.full((20, 4), torch.nan), torch.full((20, 4), torch.nan)
    old[:, :2] = (torch.rand(20, 2) < 0.5).float()
    old[:, 0] = torch.where(old[:, 1] == 0, 1.0, old[:, 0])
    new[:, 2:] = (torch.rand(20, 2) < 0.5).float()
    new[:, 2] = torch.where(new[:, 3] == 0, 1.0, new[:, 2])
    means = [x[y[:, c] == 1].mean(0) for x, y, c in ((first, old, 0), (first, old, 1))]
    kept = policy.select(old[:0], old, 8, features=first)
    assert kept.tolist() == by_the_book((old == 1).tolist(), first, means, 8)
    again = Herding()
    again.load_state_dict(policy.state_dict())
    means += [second[new[:, c] == 1].mean(0) for c in (2, 3)]
    labels, features = torch.cat([old[kept], new]), torch.cat([first[kept], second])
    expected = by_the_book((labels == 1).tolist(), features, means, 8)
    for one in (policy, again):
        assert one.select(old[kept], new, 8, features=second).tolist() == expected
    assert set((labels[expected] == 1).sum(0).tolist()) <= {2, 3, 4}


def test_edges():
    policy = Herding()
    labels, features = torch.tensor([[1.0], [0.0], [0.0]]), torch.eye(3)
    assert policy.select(labels[:0], labels, 5, features=features).tolist() == [0, 1, 2]
    assert Herding().select(labels[:0], labels, 2, features=features).tolist() == [0, 1]
    assert Herding().select(labels[:0], labels, 0, features=features).tolist() == []
    with pytest.raises(ValueError, match="needs features"):
        policy.select(labels, labels, 2)
    with pytest.raises(ValueError, match="memory has 1 rows, but 3 were kept"):
        policy.select(labels[:1], labels, 2, features=features)


@pytest.mark.parametrize("kind", ["rebll", "der++", "replay"])
def test_in_strategies(kind, vector_benchmark):
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if kind == "replay":
        buffer = PolicyBuffer(8, "herding")
        strategy = Naive(
            model=model,
            optimizer=optimizer,
            criterion=PartialLabelBCE(),
            eval_mb_size=8,
            train_mb_size=8,
            plugins=[ReplayPlugin(mem_size=8, storage_policy=buffer)],
            evaluator=multilabel_evaluator(),
        )
    else:
        made = {"rebll": RebLL, "der++": DERPlusPlus}[kind]
        strategy = made(model=model, optimizer=optimizer, mem_size=8, policy="herding")
    for experience in vector_benchmark().train_stream:
        strategy.train(experience)
    if kind == "replay":
        assert len(buffer.buffer) == 8
    else:
        memory = strategy.rebll.memory if kind == "rebll" else strategy.plugins[0].memory
        assert len(memory) == 8
        assert len(memory.policy.features) == 8


def test_a_model_without_features_is_named():
    strategy = type("Strategy", (), {"model": nn.Linear(2, 2)})
    with pytest.raises(ValueError, match="`features`, Linear has none"):
        described(strategy)
