"""Multi-label targets inside Avalanche's data sets."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from avalanche.benchmarks.utils.data import AvalancheDataset
from torch.utils.data import TensorDataset

from rebll_avalanche.benchmarks import MultiLabelTargets, multilabel_benchmark
from rebll_avalanche.benchmarks.targets import LabelView
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


@pytest.mark.parametrize("unknown", [UNKNOWN, 0.0])
def test_a_view_is_the_matrix_that_it_stands_for(unknown):
    labels = torch.tensor([[1.0, 0, UNKNOWN], [0, 1, 1], [UNKNOWN, UNKNOWN, 0], [1, 1, 0]])
    rows, columns = torch.tensor([3, 0, 2]), [0, 2]
    whole = torch.full((3, 3), UNKNOWN)
    whole[:, columns] = labels[rows][:, columns]
    whole = whole.nan_to_num(nan=unknown)
    view = LabelView(labels, rows, columns, unknown)
    assert view.shape == whole.shape
    for index in (
        1,
        slice(None),
        slice(1, 3),
        torch.tensor([2, 0]),
        torch.tensor([], dtype=torch.long),
    ):
        assert same(view[index], whole[index])
    first, second = MultiLabelTargets(view), MultiLabelTargets(whole)
    assert first.val_to_idx == second.val_to_idx
    assert same(first.subset([2, 1]).data, second.subset([2, 1]).data)
    view[:].fill_(7)
    assert float(labels[0, 0]) == 1, "what is handed out is a copy"


def test_experiences_share_their_labels():
    """Memory in proportion to images x classes, however many experiences there are."""
    samples, classes = 400, 60
    labels = torch.ones(samples, classes)
    inputs = torch.zeros(samples, 2)
    stream = multilabel_benchmark((inputs, labels), (inputs, labels), "B1-C1")
    storages = {
        experience.dataset.targets._data._labels.untyped_storage().data_ptr()
        for experience in stream.test_stream
    }
    assert len(list(stream.test_stream)) == classes
    assert len(storages) == 1
