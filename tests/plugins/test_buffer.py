"""Sampling policies inside Avalanche's replay."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from avalanche.training.plugins import ReplayPlugin
from avalanche.training.supervised import AGEM

from rebll_avalanche.labels import label_matrix
from rebll_avalanche.memory.sampling import build_policy
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins.buffer import PolicyBuffer, SharedBudgetPlugin
from rebll_avalanche.strategies import FineTuning, adopt


@pytest.mark.parametrize("policy", ["reservoir", "prs", "ocdm"])
def test_the_buffer_holds_what_the_policy_chose(vector_benchmark, policy):
    buffer, reference = PolicyBuffer(9, policy), build_policy(policy)
    images, labels = torch.empty(0, 6), torch.empty(0, 4)
    for number, experience in enumerate(vector_benchmark("B2-C1").train_stream):
        torch.manual_seed(number)
        buffer.post_adapt(None, experience)
        torch.manual_seed(number)
        arriving = label_matrix(experience.dataset)
        chosen = reference.select(labels, arriving, 9)
        inputs = torch.stack([experience.dataset[i][0] for i in range(len(arriving))])
        images, labels = torch.cat([images, inputs])[chosen], torch.cat([labels, arriving])[chosen]
        assert len(buffer.buffer) == 9
        items = [buffer.buffer[i] for i in range(9)]
        assert torch.equal(torch.stack([x for x, _ in items]), images)
        # What an item says and what the data set's field says are the same labels, NaN included.
        for kept in (torch.stack([y for _, y in items]), label_matrix(buffer.buffer)):
            assert torch.equal(kept.nan_to_num(nan=-1), labels.nan_to_num(nan=-1))


def test_replay_learns_old_classes_from_it(vector_benchmark):
    """The weights of old classes move, which without memory they cannot."""
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    replay = ReplayPlugin(mem_size=6, storage_policy=PolicyBuffer(6, "ocdm"))
    strategy = FineTuning(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        plugins=[replay],
        train_mb_size=8,
    )
    stream = vector_benchmark("B2-C2").train_stream
    strategy.train(stream[0])
    before = model.head.weight.detach().clone()
    strategy.train(stream[1])
    assert not torch.equal(model.head.weight[:2], before)
    assert torch.isfinite(model.head.weight).all()


def test_a_smaller_size_holds_from_the_next_experience_on(vector_benchmark):
    buffer = PolicyBuffer(9, "reservoir")
    stream = vector_benchmark("B2-C2").train_stream
    buffer.post_adapt(None, stream[0])
    buffer.resize(None, 4)
    buffer.post_adapt(None, stream[1])
    assert len(buffer.buffer) == 4


def test_experiences_share_one_budget(vector_benchmark):
    model = build_model("vector", in_features=6)
    strategy = adopt(
        AGEM,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        patterns_per_exp=100,
        plugins=[SharedBudgetPlugin(10)],
        train_mb_size=8,
    )
    for experience in vector_benchmark("B2-C1").train_stream:
        strategy.train(experience)
    agem = next(p for p in strategy.plugins if hasattr(p, "patterns_per_experience"))
    assert [len(buffer) for buffer in agem.buffers] == [3, 3, 3]


def test_a_budget_that_leaves_an_experience_without_images_is_refused(vector_benchmark):
    strategy = SimpleNamespace(experience=vector_benchmark("B2-C1").train_stream[0], plugins=[])
    with pytest.raises(ValueError, match=r"at least 3, one image per experience, got 2"):
        SharedBudgetPlugin(2).before_training_exp(strategy)
