"""Multi-label targets inside Avalanche's data sets."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from avalanche.benchmarks.utils.data import AvalancheDataset
from torch.utils.data import TensorDataset

from rebll_avalanche.benchmarks import MultiLabelTargets
from rebll_avalanche.labels import UNKNOWN, label_matrix

LABELS = torch.tensor(
    [[1.0, 0.0, UNKNOWN], [1.0, UNKNOWN, 1.0], [0.0, 0.0, UNKNOWN], [UNKNOWN, 0.0, 1.0]]
)


def same(left, right):
    return torch.equal(left.nan_to_num(nan=-1), right.nan_to_num(nan=-1))


def make(labels=LABELS):
    inputs = torch.arange(len(labels)).float()
    return AvalancheDataset(
        [TensorDataset(inputs, labels)], data_attributes=[MultiLabelTargets(labels)]
    )


def test_a_value_is_a_class_with_a_positive_sample():
    targets = MultiLabelTargets(LABELS)
    assert targets.uniques == {0, 2}
    assert targets.count == {0: 2, 2: 2}
    assert targets.val_to_idx == {0: [0, 1], 2: [1, 3]}
    assert len(targets) == 4
    assert same(targets[1], LABELS[1])
    assert same(torch.stack(list(targets)), LABELS)


def test_subsets_and_joins_of_data_sets_keep_the_type_and_the_rows():
    dataset = make()
    part = dataset.subset([3, 1])
    both = part.concat(dataset).subset(torch.tensor([0, 5, 1]))
    for data, rows in ((part, [3, 1]), (both, [3, 3, 1])):
        assert isinstance(data.targets, MultiLabelTargets)
        assert same(label_matrix(data), LABELS[rows])
        assert same(torch.stack([y for _, y in data]), LABELS[rows])
        assert [int(x) for x, _ in data] == rows


def test_an_empty_buffer_can_be_joined():
    dataset = make()
    assert same(dataset.concat(AvalancheDataset([])).targets.data, LABELS)


def test_copies_keep_everything():
    targets = MultiLabelTargets(LABELS)
    for clone in (copy.deepcopy(targets), pickle.loads(pickle.dumps(targets))):
        assert same(clone.data, LABELS)
        assert clone.uniques == {0, 2}
        assert clone.name == "targets"


def test_wrong_shapes_and_names_are_refused():
    with pytest.raises(ValueError, match=r"got targets of \(3,\)"):
        MultiLabelTargets(torch.zeros(3))
    with pytest.raises(ValueError, match="'targets' and 'other'"):
        MultiLabelTargets(LABELS).concat(MultiLabelTargets(LABELS, name="other"))
