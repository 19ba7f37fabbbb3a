"""PRS's decisions against cdjkim/PRS, step by step from the memory that the release had."""

import pytest
import torch

from rebll_avalanche.memory.sampling import PartitioningReservoir


@pytest.fixture
def numbers(peer):
    return peer("prs")


def before_row(numbers, stream: str, row: int) -> PartitioningReservoir:
    """A reservoir that has seen the stream up to a row."""
    policy = PartitioningReservoir(float(numbers[f"{stream}_q"]))
    policy.counts = numbers[f"{stream}_labels"][:row].float().sum(dim=0)
    return policy


# In stream b a class loses its last image, and the release's shares leave it out from then on.
AS_THE_PAPER = ["a_formula", "a_release", "b_formula"]


@pytest.mark.parametrize("run", AS_THE_PAPER)
def test_chance_to_come_in(numbers, near, run):
    stream, capacity = run[0], int(numbers[f"{run[0]}_capacity"])
    theirs = numbers[f"{run}_chance"]
    rows = (~theirs.isnan()).nonzero().flatten().tolist()
    assert len(rows) > 200
    ours = [
        before_row(numbers, stream, row).chance(numbers[f"{stream}_labels"][row].float(), capacity)
        for row in rows
    ]
    near(torch.stack(ours), theirs[rows], 1e-6)


@pytest.mark.parametrize("run", AS_THE_PAPER)
def test_what_leaves(numbers, monkeypatch, run):
    """The class drawn, and a slot whose removal leaves the smallest distance."""
    stream = run[0]
    labels = numbers[f"{stream}_labels"].float()
    drawn: list[int] = []

    def draw(odds: torch.Tensor, _: int) -> torch.Tensor:
        below = odds.double().cumsum(dim=0) <= numbers[f"{stream}_uniform"][row, 1]
        drawn.append(int(below.sum()))
        return torch.tensor(drawn[-1:])

    monkeypatch.setattr(torch, "multinomial", draw)
    events = numbers[f"{run}_event_rows"].tolist()
    for event, row in enumerate(events):
        memory = labels[numbers[f"{run}_memory"][event].long()]
        slot = before_row(numbers, stream, row).leaving(memory)
        assert drawn[-1] == numbers[f"{run}_drawn"][row]
        distance = numbers[f"{run}_distance"][event]
        smallest = distance[~distance.isnan()].min()
        assert distance[slot] <= smallest + 1e-5, f"row {row}"
    assert len(events) >= 32


def test_shares_are_over_every_class_that_has_come(numbers):
    """The release's are over the classes in memory; ours differ from it where one has left."""
    theirs, formula = numbers["b_release_chance"], numbers["b_formula_chance"]
    both = ~(theirs.isnan() | formula.isnan())
    assert (theirs - formula)[both].abs().max() > 1e-2
