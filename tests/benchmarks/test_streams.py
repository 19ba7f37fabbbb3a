"""Streams in which images come once, classes come again, and anything may be annotated."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rebll_avalanche.benchmarks import VOC2007, multilabel_benchmark
from rebll_avalanche.scenario import Scenario

LABELS = (np.random.default_rng(3).random((200, 6)) < 0.25).astype(np.float32)
INPUTS = np.arange(200, dtype=np.float32)


def build(scenario="B2-C2", **options):
    return multilabel_benchmark((INPUTS, LABELS), (INPUTS, LABELS), scenario, **options)


def images(experience):
    return experience.image_indices.tolist()


def check_contract(benchmark, truth):
    """Exactly the annotated columns have labels, these are the truth, and new classes have positives."""
    seen: set[int] = set()
    for experience in benchmark.train_stream:
        labels = experience.dataset.targets.data
        columns = sorted(experience.annotated_classes)
        assert experience.new_classes == experience.classes_in_this_experience
        assert experience.previous_classes == seen
        seen |= experience.new_classes
        assert experience.classes_seen_so_far == seen == set(range(len(seen)))
        assert experience.new_classes <= experience.annotated_classes <= seen
        expected = torch.full_like(labels, torch.nan)
        expected[:, columns] = truth[images(experience)][:, columns]
        assert torch.equal(labels.nan_to_num(7), expected.nan_to_num(7))
        assert torch.equal(experience.full_targets, truth[images(experience)])
    assert len(seen) == truth.shape[1]


def check_tests(benchmark, truth):
    """Test images have a class seen by then and labels of all seen classes."""
    for experience in benchmark.test_stream:
        hi = len(experience.classes_seen_so_far)
        assert images(experience) == (truth[:, :hi] == 1).any(1).nonzero().flatten().tolist()
        labels = experience.dataset.targets.data
        assert not labels[:, :hi].isnan().any()
        assert labels[:, hi:].isnan().all()


def test_once_uses_every_image_in_one_of_its_experiences():
    truth = torch.from_numpy(LABELS)
    benchmark = build(mode="once", seed=5)
    check_contract(benchmark, truth)
    check_tests(benchmark, truth)
    used = [index for e in benchmark.train_stream for index in images(e)]
    assert sorted(used) == (truth == 1).any(1).nonzero().flatten().tolist()
    for experience in benchmark.train_stream:
        columns = sorted(experience.new_classes)
        assert (truth[images(experience)][:, columns] == 1).any(1).all()
    again, other = build(mode="once", seed=5), build(mode="once", seed=6)
    stream = [images(e) for e in benchmark.train_stream]
    assert [images(e) for e in again.train_stream] == stream
    assert [images(e) for e in other.train_stream] != stream
    # The draw of an image does not depend on which others are held out.
    held = build(mode="once", seed=5, validation_size=0.2)
    for before, after in zip(stream, held.train_stream, strict=True):
        assert set(images(after)) <= set(before)


def test_repetition_brings_classes_back_with_other_images():
    truth = torch.from_numpy(LABELS)
    benchmark = build(mode="repetition", experiences=7, return_chance=0.6, seed=1)
    assert benchmark.scenario.sizes == (2, 0, 2, 0, 2, 0, 0)
    check_contract(benchmark, truth)
    check_tests(benchmark, truth)
    used = [index for e in benchmark.train_stream for index in images(e)]
    assert len(used) == len(set(used))
    returned = [len(e.annotated_classes - e.new_classes) for e in benchmark.train_stream]
    assert returned[0] == 0
    assert sum(returned) > 5
    for experience in benchmark.train_stream:
        columns = sorted(experience.annotated_classes)
        assert (truth[images(experience)][:, columns] == 1).any(1).all()
    again = build(mode="repetition", experiences=7, return_chance=0.6, seed=1)
    assert [images(e) for e in again.train_stream] == [images(e) for e in benchmark.train_stream]


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 1), (1.0, 6)])
def test_how_often_classes_return(chance, expected):
    benchmark = build(mode="repetition", experiences=4, return_chance=chance, images_per_class=5)
    last = benchmark.train_stream[3]
    assert last.new_classes == set()
    assert len(last.annotated_classes) == expected  # one comes back where none would
    counts = (last.dataset.targets.data == 1).sum(0)
    # An image counts for all of its classes; so the rarest class has exactly what was asked for.
    assert min(counts[c] for c in last.annotated_classes) == 5


def test_listed_experiences_are_taken_as_they_are():
    names = ["cat", "dog", "bird", "car", "bus", "cow"]
    truth = torch.from_numpy(LABELS)
    listed = [
        ([5, 3, 8], ["dog", "cat"]),
        (torch.tensor([3, 10]), ["cat"]),
        (np.array([100, 101]), []),
        (range(20, 40), ["bus", "cat", "bird", "car", "cow"]),
    ]
    benchmark = build(listed, class_names=names)
    assert benchmark.class_names == ["dog", "cat", "bus", "bird", "car", "cow"]
    assert benchmark.scenario == Scenario((2, 0, 0, 4), (1, 0, 4, 2, 3, 5), "2+0+0+4")
    check_contract(benchmark, truth[:, benchmark.scenario.class_order])
    check_tests(benchmark, truth[:, benchmark.scenario.class_order])
    assert [images(e) for e in benchmark.train_stream[:3]] == [[5, 3, 8], [3, 10], [100, 101]]
    assert benchmark.train_stream[2].annotated_classes == set()
    by_index = [(rows, [names.index(name) for name in classes]) for rows, classes in listed]
    assert build(by_index, class_names=names).class_names == benchmark.class_names
    held = build(listed, class_names=names, validation_size=60)
    kept = [images(e) for e in held.train_stream]
    assert len(kept[3]) < 20
    assert not set(kept[3]) & set(images(held.valid_stream[-1]))


@pytest.mark.parametrize(
    ("scenario", "options", "message"),
    [
        ([([0, 200], [0, 1, 2, 3, 4, 5])], {}, "lists image 200, but there are only 200"),
        ([([-1], [0, 1, 2, 3, 4, 5])], {}, "lists image -1"),
        ([([4, 4], [0, 1, 2, 3, 4, 5])], {}, "experience 0 lists an image twice"),
        ([([4], [0, 1, 2])], {}, "classes that never arrive: 3, 4, 5"),
        ([([4], []), ([5], range(6))], {}, "the first experience must add at least 1"),
        ([([4], range(6)), ([], [0])], {}, "experience 1 of the train stream is empty"),
        ([([4], range(7))], {}, "class 6 is not one of the data set's"),
        ("B2-C2", {"mode": "repetition", "experiences": 2}, "has 3 experiences, .* at least 3"),
        ("B2-C2", {"mode": "repetition", "return_chance": 1.5}, "between 0 and 1, got 1.5"),
        ("B2-C2", {"mode": "repetition", "images_per_class": 0}, "at least 1, got 0"),
    ],
)
def test_what_cannot_be_is_refused(scenario, options, message):
    with pytest.raises(ValueError, match=message):
        build(scenario, **options)


def test_counts_on_voc(voc_root):
    """The rules, counted by loops over VOC's labels."""
    build = {m: VOC2007("B5-C3", root=voc_root, mode=m) for m in ("overlap", "disjoint", "once")}
    build["repetition"] = VOC2007("B5-C3", root=voc_root, mode="repetition", images_per_class=6)
    truth = build["overlap"].train_stream[0]._labels
    ranges = build["overlap"].scenario.ranges
    homes = [
        [step for step, (lo, hi) in enumerate(ranges) if 1 in row[lo:hi]] for row in truth.tolist()
    ]
    sizes = {mode: [len(e.dataset) for e in b.train_stream] for mode, b in build.items()}
    assert sizes["overlap"] == [sum(step in h for h in homes) for step in range(6)]
    assert sizes["disjoint"] == [
        sum(step == max(h, default=-1) for h in homes) for step in range(6)
    ]
    assert sum(sizes["once"]) == sum(sizes["disjoint"]) == sum(bool(h) for h in homes)
    for step, experience in enumerate(build["once"].train_stream):
        assert all(step in homes[index] for index in images(experience))
    for benchmark in build.values():
        check_contract(benchmark, truth)
        check_tests(benchmark, benchmark.test_stream[0]._labels)
    assert len(sizes["repetition"]) == 12
    for experience in build["repetition"].train_stream:
        assert len(experience.dataset) <= 6 * len(experience.annotated_classes)
