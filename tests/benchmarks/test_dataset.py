"""Batches read at once are what samples read one by one would be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from avalanche.benchmarks.utils.data import AvalancheDataset
from avalanche.benchmarks.utils.data_attribute import DataAttribute
from avalanche.benchmarks.utils.transforms import TupleTransform
from avalanche.training import Naive
from torch.utils.data import DataLoader, default_collate

from rebll_avalanche import PartialLabelBCE, RebLL, build_model
from rebll_avalanche.benchmarks import multilabel_benchmark, training_transform
from rebll_avalanche.benchmarks.dataset import MultiLabelDataset, Stacked
from rebll_avalanche.benchmarks.transforms import to_unit_range
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.strategies.loader import in_batches

ORDER = [7, 0, 3, 3, 11, 5]


def pictures(**options):
    """Pictures with a random training transform and another one for evaluation."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (24, 12, 12, 3), dtype=np.uint8)
    labels = (generator.random((24, 4)) < 0.5).astype(np.float32)
    labels[:, 0] = 1
    transforms = {"train_transform": training_transform(8)} | options
    return multilabel_benchmark((images, labels), (images, labels), "B2-C2", **transforms)


def views(dataset):
    """What users make of a data set, in Avalanche's own words."""
    half = dataset.subset(range(1, len(dataset)))
    return {
        "itself": dataset,
        "in training": dataset.train(),
        "in evaluation": dataset.eval(),
        "a part": half,
        "a part of a part": half.subset(range(2, len(half))).eval(),
        "two together": dataset.concat(half),
        "frozen": dataset.freeze_transforms().eval(),
        "another transform": dataset.replace_current_transform_group(lambda x: torch.zeros(2)),
        "none": dataset.remove_current_transform_group(),
        "a number beside": dataset.update_data_attribute(
            "weights", DataAttribute(list(range(len(dataset))), "weights", use_in_getitem=True)
        ),
    }


@pytest.mark.parametrize("view", views(pictures().train_stream[0].dataset))
def test_a_batch_is_its_samples(view):
    dataset = views(pictures().train_stream[0].dataset)[view]
    torch.manual_seed(0)
    one_by_one = [dataset[index] for index in ORDER]
    torch.manual_seed(0)
    at_once = dataset.__getitems__(ORDER)
    assert len(one_by_one) == len(at_once)
    for alone, together in zip(one_by_one, at_once, strict=True):
        for left, right in zip(alone, together, strict=True):
            np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_random_transforms_draw_the_same_numbers_in_a_loader():
    dataset = pictures().train_stream[0].dataset.train()
    plain = AvalancheDataset([dataset])  # knows nothing of batches
    assert not hasattr(plain, "__getitems__")
    batches = []
    for given in (dataset, plain):
        torch.manual_seed(0)
        batches.append(list(DataLoader(given, batch_size=5, shuffle=True)))
    for left, right in zip(*batches, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


def test_files_and_vectors(vector_benchmark, voc_root):
    from rebll_avalanche.benchmarks import VOC2007

    for benchmark in (vector_benchmark(), VOC2007("B10-C10", root=voc_root, image_size=32)):
        dataset = benchmark.test_stream[0].dataset
        one_by_one = default_collate([dataset[index] for index in ORDER])
        together = default_collate(dataset.__getitems__(ORDER))
        torch.testing.assert_close(together, one_by_one, rtol=0, atol=0, equal_nan=True)


def test_vectors_are_taken_at_once_and_are_copies(vector_benchmark):
    dataset = vector_benchmark().train_stream[0].dataset
    batch = dataset.__getitems__(ORDER)
    assert isinstance(batch, Stacked)
    inputs, targets = dataset.collate_fn(batch)
    torch.testing.assert_close([inputs, targets], default_collate(list(batch)), equal_nan=True)
    inputs.zero_()
    targets.zero_()
    assert dataset[ORDER[0]][0].any()  # what a plugin does to its batch does not reach the data
    scaled = dataset.replace_current_transform_group(lambda x: 2 * x)
    assert not isinstance(scaled.__getitems__(ORDER), Stacked)


@pytest.mark.parametrize("options", [{}, {"image_size": 12}])
def test_pictures_of_their_own_size_are_written_straight_into_a_batch(options):
    dataset = pictures(**options).test_stream[0].dataset
    batch = dataset.__getitems__(ORDER)
    assert isinstance(batch, Stacked)
    one_by_one = default_collate([dataset[index] for index in ORDER])
    together = dataset.collate_fn(batch)
    torch.testing.assert_close(together, one_by_one, rtol=0, atol=0, equal_nan=True)


def test_what_else_is_done_to_pictures_or_labels_is_done_one_by_one():
    dataset = pictures().test_stream[0].dataset
    resized = pictures(image_size=8).test_stream[0].dataset
    relabelled = dataset.replace_current_transform_group(
        TupleTransform([to_unit_range, torch.zeros_like])
    )
    for other in (resized, relabelled, pictures().train_stream[0].dataset.train()):
        assert not isinstance(other.__getitems__(ORDER), Stacked)
    assert not any(y.any() for _, y in relabelled.__getitems__(ORDER))


@pytest.mark.parametrize("strategy", [RebLL, Naive])
def test_who_reads_in_batches(strategy, monkeypatch):
    """Training always does; evaluation where the strategy is of this package."""
    asked = []
    read = MultiLabelDataset.__getitems__
    monkeypatch.setattr(
        MultiLabelDataset, "__getitems__", lambda self, rows: asked.append(rows) or read(self, rows)
    )
    benchmark = pictures()
    model = build_model("small_cnn")
    options = {"criterion": PartialLabelBCE(), "evaluator": multilabel_evaluator()}
    if strategy is RebLL:
        options = {"mem_size": 4}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = strategy(model=model, optimizer=optimizer, train_mb_size=8, eval_mb_size=10, **options)
    made.train(benchmark.train_stream[0])
    assert [len(rows) for rows in asked] == [8, 8, 8]
    asked.clear()
    made.eval(benchmark.test_stream[:1])
    assert [len(rows) for rows in asked] == ([10, 10, 4] if strategy is RebLL else [])


def test_the_loader_of_evaluations_gives_avalanches_batches():
    from avalanche.benchmarks.utils.data_loader import SingleDatasetDataLoader

    dataset = pictures().test_stream[1].dataset
    for options in ({}, {"shuffle": True}, {"num_workers": 1}, {"drop_last": True}):
        own = SingleDatasetDataLoader(dataset, 7, **options)
        batches = []
        for loader in (own, in_batches(own)):
            torch.manual_seed(0)
            batches.append((list(loader), torch.rand(1)))
            assert len(loader) == len(batches[-1][0])
        (left, after), (right, also_after) = batches
        torch.testing.assert_close(right, left, rtol=0, atol=0, equal_nan=True)
        assert after == also_after


def test_other_loaders_are_left_alone():
    loader = DataLoader(pictures().test_stream[0].dataset)
    assert in_batches(loader) is loader
