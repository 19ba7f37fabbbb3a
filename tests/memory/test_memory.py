"""Memory: the reservoir is fair, known labels are sacred, references survive a restart."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from rebll_avalanche.memory import Memory, Provenance
from rebll_avalanche.memory.memory import _random_rows

NAN = float("nan")


class Vectors:
    """As much of an Avalanche data set as memory needs; augmentation adds 100."""

    def __init__(self, inputs, targets, offset=0.0):
        self.inputs, self.targets, self.offset = inputs, targets, offset

    def train(self):
        return Vectors(self.inputs, self.targets, offset=100.0)

    def eval(self):
        return Vectors(self.inputs, self.targets)

    def __getitem__(self, index):
        return self.inputs[index] + self.offset, self.targets[index]


@pytest.mark.parametrize("count", [199, 200])  # a permutation, and random numbers
def test_every_row_is_drawn_equally_often_and_once(count):
    torch.manual_seed(0)
    drawn = torch.stack([_random_rows(count, 2) for _ in range(20_000)])
    assert (drawn[:, 0] != drawn[:, 1]).all()
    for place in drawn.T:  # in random order, too
        assert chisquare(place.bincount(minlength=count)).pvalue > 0.001


def above_half(probability):
    return (probability > 0.5).float()


def stream(sizes, classes=4, samples=10):
    """Experiences whose images are their own numbers: 1000 * experience + index."""
    experiences, lo = [], 0
    for number, size in enumerate(sizes):
        targets = torch.full((samples, classes), NAN)
        targets[:, lo : lo + size] = (torch.arange(samples * size).view(samples, size) % 2).float()
        inputs = (1000.0 * number + torch.arange(samples).float()).view(samples, 1)
        experiences.append(
            SimpleNamespace(
                dataset=Vectors(inputs, targets),
                current_experience=number,
                full_targets=targets.nan_to_num(nan=1.0),
            )
        )
        lo += size
    for experience in experiences:
        experience.origin_stream = experiences
    return experiences


def test_reservoir_is_fair():
    """Over many runs every image of three experiences is kept equally often."""
    torch.manual_seed(0)
    counts = torch.zeros(60)
    experiences = stream([1, 1, 1], samples=20)
    for _ in range(3000):
        memory = Memory(6)
        for experience in experiences:
            memory.update(experience)
        assert len(memory) == 6
        counts[20 * memory.experience + memory.index] += 1
    # A kept image excludes others, so counts vary a little less than a multinomial's: the test is
    # on the safe side of rejecting too rarely, and a biased sampler still fails it by far.
    assert chisquare(counts.numpy()).pvalue > 1e-3
    share = counts.view(3, 20).sum(dim=1) / counts.sum()
    assert (share - 1 / 3).abs().max() < 0.02


def test_no_more_than_mem_size_and_all_while_there_is_room():
    memory = Memory(25)
    first, second, third = stream([1, 1, 1])
    memory.update(first)
    assert len(memory) == 10
    memory.update(second)
    assert len(memory) == 20
    memory.update(third)
    assert len(memory) == 25


def test_images_come_with_the_right_transforms():
    memory = Memory(20)
    for experience in stream([1, 1]):
        memory.update(experience)
    rows = torch.tensor([0, 13])
    assert memory.images(rows, augment=False).flatten().tolist() == [0.0, 1003.0]
    assert memory.images(rows, augment=True).flatten().tolist() == [100.0, 1103.0]
    images, labels = memory.draw(64)
    assert len(images) == 20
    assert len(set(images.flatten().tolist())) == 20
    assert labels.shape == (20, 4)


def test_relabelling_is_strictly_above_the_threshold():
    memory = Memory(10)
    memory.update(stream([1])[0])
    scores = torch.tensor([0.4999, 0.5, 0.5001]).repeat(4)[:10]

    def predict(images):
        return scores[images.flatten().long()].view(-1, 1).repeat(1, 4)

    memory.relabel(
        torch.arange(10),
        slice(1, 2),
        predict,
        decide=above_half,
        provenance=Provenance.CURRENT_MODEL,
        batch_size=3,
    )
    assert memory.labels[:, 1].tolist() == [0, 0, 1] * 3 + [0]
    assert torch.isnan(memory.labels[:, 2:]).all()


def test_known_labels_beside_gaps_stay_as_they_are():
    memory = Memory(10)
    memory.update(stream([2, 2])[1])  # of four columns the last two are annotated
    given = memory.labels.clone()
    given[0, 2] = memory.labels[0, 2] = NAN
    memory.provenance[0, 2] = int(Provenance.UNKNOWN)
    known = ~given.isnan()
    memory.relabel(
        torch.arange(10),
        slice(0, 4),
        lambda images: 1.0 - given[images.flatten().long() % 1000].nan_to_num(nan=0.0),  # all wrong
        decide=above_half,
        provenance=Provenance.CURRENT_MODEL,
    )
    assert torch.equal(memory.labels[known], given[known])
    assert (memory.labels[~known] == 1).all()
    assert torch.equal(memory.provenance == Provenance.GROUND_TRUTH, known)


def test_only_images_with_gaps_are_looked_at():
    memory = Memory(10)
    memory.update(stream([2])[0])
    asked = []

    def predict(images):
        asked.extend(images.flatten().tolist())
        return torch.ones(len(images), 4)

    fill = {"decide": above_half, "provenance": Provenance.PREVIOUS_MODEL}
    memory.relabel(torch.arange(10), slice(0, 2), predict, **fill)
    assert asked == []
    memory.relabel(torch.tensor([2, 5]), slice(0, 3), predict, **fill)
    assert asked == [2.0, 5.0]
    memory.relabel(torch.tensor([2, 5]), slice(0, 3), predict, **fill)
    assert asked == [2.0, 5.0]


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    mem_size=st.integers(0, 12),
    seed=st.integers(0, 1000),
)
def test_properties(sizes, mem_size, seed):
    """Whatever the stream: bounded, complete on seen classes, ground truth untouched."""
    torch.manual_seed(seed)
    classes = sum(sizes)
    memory = Memory(mem_size)
    hi = 0
    experiences = stream(sizes, classes=classes)
    for size, experience in zip(sizes, experiences, strict=True):
        lo, hi = hi, hi + size
        memory.update(experience)
        mine, others = memory.rows_of(experience.current_experience)
        for rows, columns in ((mine, slice(0, lo)), (others, slice(lo, hi))):
            memory.relabel(
                rows,
                columns,
                lambda images: torch.rand(len(images), classes),
                decide=above_half,
                provenance=Provenance.CURRENT_MODEL,
            )
        assert len(memory) <= mem_size
        assert not torch.isnan(memory.labels[:, :hi]).any()
        assert torch.isnan(memory.labels[:, hi:]).all()
        for row, (number, index) in enumerate(
            zip(memory.experience.tolist(), memory.index.tolist(), strict=True)
        ):
            given_labels = experiences[number].dataset.targets[index]
            known = ~torch.isnan(given_labels)
            assert torch.equal(memory.labels[row][known], given_labels[known])
            assert ((memory.provenance[row] == Provenance.GROUND_TRUTH) == known).all()


class Watched(SimpleNamespace):
    """An experience that gathers its hidden labels for whoever asks, and knows who still has them."""

    @property
    def full_targets(self):
        gathered = self.dataset.targets.nan_to_num(nan=1.0)
        self.alive.add(gathered)
        return gathered


def test_the_hidden_labels_of_other_images_are_not_kept():
    alive = weakref.WeakSet()
    experiences = [
        Watched(dataset=e.dataset, current_experience=e.current_experience, alive=alive)
        for e in stream([1] * 4)
    ]
    for experience in experiences:
        experience.origin_stream = experiences
    memory = Memory(6)
    for experience in experiences:
        memory.update(experience)
    resumed = Memory(6)
    resumed.load_state_dict(memory.state_dict())
    resumed.bind(experiences[-1])
    assert len(alive) == 0
    columns = {number: set(range(4)) - {number} for number in range(4)}
    for each in (memory, resumed):
        each.relabel(
            torch.arange(6),
            slice(0, 4),
            lambda images: torch.ones(len(images), 4),
            decide=above_half,
            provenance=Provenance.CURRENT_MODEL,
        )
        found = {(b["images"], b["classes"]): b["right"] for b in each.block_scores([1, 2, 3, 4])}
        wanted = {(n, c) for n in memory.experience.tolist() for c in columns[n]}
        assert found == dict.fromkeys(wanted, 1.0)


def test_scores_against_hidden_truth():
    memory = Memory(4)
    experience = stream([1], samples=4)[0]
    experience.full_targets[:, 1] = torch.tensor([1.0, 1, 0, 0])
    memory.update(experience)
    assert memory.relabelling_score() == {}
    said = torch.tensor([0.9, 0.1, 0.9, 0.1]).view(-1, 1).repeat(1, 4)
    memory.relabel(
        torch.arange(4),
        slice(1, 2),
        lambda images: said[images.flatten().long()],
        decide=above_half,
        provenance=Provenance.CURRENT_MODEL,
    )
    expected = {"accuracy": 0.5, "precision": 0.5, "recall": 0.5, "count": 4.0}
    assert memory.relabelling_score() == expected
    block = {"images": 0, "classes": 1, "right": 0.5, "count": 4}
    assert memory.block_scores([1, 2, 4]) == [block]
    assert memory.block_scores([2, 4]) == [block | {"classes": 0}]
    shares = memory.provenance_shares()
    assert shares == {
        "unknown": 0.5,
        "ground_truth": 0.25,
        "previous_model": 0.0,
        "current_model": 0.25,
    }


def test_state_survives_a_restart():
    torch.manual_seed(0)
    first, second, third = stream([1, 1, 1])
    memory = Memory(7)
    memory.update(first)
    memory.update(second)
    again = Memory(7)
    again.load_state_dict(memory.state_dict())
    again.bind(third)
    rows = torch.arange(7)
    assert torch.equal(again.images(rows, augment=False), memory.images(rows, augment=False))
    for one in (memory, again):
        torch.manual_seed(1)
        one.update(third)
    assert torch.equal(memory.index, again.index)
    torch.testing.assert_close(memory.labels, again.labels, equal_nan=True)


def test_negative_size():
    with pytest.raises(ValueError, match="-3"):
        Memory(-3)


@pytest.mark.parametrize("policy", ["reservoir", "prs", "ocdm"])
def test_an_experience_that_is_trained_again_brings_no_image_twice(policy):
    first, second = stream([2, 2])
    memory = Memory(15, policy)
    for experience in (first, first, second, second):
        memory.update(experience)
        kept = list(zip(memory.experience.tolist(), memory.index.tolist(), strict=True))
        assert len(kept) == len(set(kept)) == min(15, 10 * (experience.current_experience + 1))
        images = memory.images(torch.arange(len(memory)), augment=False).flatten()
        assert images.tolist() == [1000.0 * number + index for number, index in kept]


@pytest.mark.parametrize("size", [-1, 2.5])
def test_a_size_that_is_no_number_of_images_is_refused(size):
    with pytest.raises(ValueError, match=f"whole number of at least 0, got {size}"):
        Memory(size)
