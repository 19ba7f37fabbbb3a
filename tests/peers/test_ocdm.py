"""OCDM's greedy choice against dallepezze/bat-ocdm, with KL(target || memory)."""

import pytest
import torch

from rebll_avalanche.memory.sampling import OptimisedDistribution


@pytest.fixture
def numbers(peer):
    return peer("ocdm")


@pytest.fixture
def first_of_equals(monkeypatch):
    """Ours draws among equals; the release takes the first."""
    monkeypatch.setattr(torch, "randint", lambda *_args: torch.tensor(0))


def joined(numbers, pool: str, batch: int) -> tuple[OptimisedDistribution, torch.Tensor]:
    policy = OptimisedDistribution(rho=0.0, batch_size=batch)
    return policy, numbers[f"{pool}_labels"].float()


@pytest.mark.parametrize("pool", ["pool0", "pool1", "pool2"])
def test_distances_of_the_first_choice(numbers, near, pool):
    capacity, batch = int(numbers[f"{pool}_capacity"]), int(numbers[f"{pool}_batch"])
    policy, labels = joined(numbers, pool, batch)
    pooled = labels[: capacity + batch].double()
    policy.counts = pooled.sum(dim=0).float()
    distance = policy.divergence(pooled)
    near(distance, numbers[f"{pool}_first_distances"], 1e-12)
    assert int(distance.round(decimals=9).argmin()) == numbers[f"{pool}_first_choice"]


@pytest.mark.parametrize("pool", ["pool0", "pool1", "pool2"])
def test_everything_kept_after_each_batch(numbers, near, pool, first_of_equals):
    capacity, batch = int(numbers[f"{pool}_capacity"]), int(numbers[f"{pool}_batch"])
    policy, labels = joined(numbers, pool, batch)
    kept = policy.select(labels[:0], labels[:capacity], capacity)
    assert kept.tolist() == list(range(capacity))
    for start, theirs in zip(
        range(capacity, len(labels), batch), numbers[f"{pool}_kept"], strict=True
    ):
        arriving = torch.arange(start, min(start + batch, len(labels)))
        chosen = policy.select(labels[kept], labels[arriving], capacity)
        kept = torch.cat([kept, arriving])[chosen]
        assert sorted(kept.tolist()) == sorted(theirs.tolist())
