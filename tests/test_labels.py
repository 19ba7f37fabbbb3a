"""The partial-label contract and its criterion."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from rebll_avalanche.labels import (
    PartialLabelBCE,
    check_criterion,
    check_targets,
    knows_unknown,
    label_matrix,
)

NAN = float("nan")


class Data:
    def __init__(self, targets):
        self.targets = targets


def test_equals_torch_when_all_is_annotated():
    logits, targets = (
        torch.randn(4, 3),
        torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]),
    )
    for reduction in ("mean", "sum", "none"):
        ours = PartialLabelBCE(reduction)(logits, targets)
        torch.testing.assert_close(
            ours, binary_cross_entropy_with_logits(logits, targets, reduction=reduction)
        )


def test_only_annotated_labels_count():
    logits = torch.tensor([[1.0, 5.0], [2.0, -3.0]], requires_grad=True)
    targets = torch.tensor([[1.0, NAN], [NAN, 0.0]])
    loss = PartialLabelBCE()(logits, targets)
    known = torch.tensor([1.0, -3.0])
    expected = binary_cross_entropy_with_logits(known, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert logits.grad[0, 1] == 0
    assert logits.grad[1, 0] == 0
    assert (logits.grad.diagonal() != 0).all()


def test_nothing_annotated_gives_zero_with_a_graph():
    logits = torch.randn(2, 2, requires_grad=True)
    loss = PartialLabelBCE()(logits, torch.full((2, 2), NAN))
    loss.backward()
    assert loss == 0
    assert (logits.grad == 0).all()


def test_a_narrow_head_is_compared_on_its_own_columns():
    logits = torch.randn(3, 2)
    targets = torch.tensor([[1.0, 0, 1, NAN]]).repeat(3, 1)
    torch.testing.assert_close(
        PartialLabelBCE()(logits, targets), PartialLabelBCE()(logits, targets[:, :2])
    )


@pytest.mark.parametrize(
    ("logits", "targets", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 2), "3 outputs"),
        (torch.zeros(2, 3), torch.zeros(3, 3), r"\(3, 3\)"),
        (torch.zeros(3), torch.zeros(3), r"\(3,\)"),
        (torch.zeros(1, 2), torch.tensor([[0.0, float("inf")]]), "inf"),
        (torch.zeros(1, 2), torch.tensor([[0.0, 2.0]]), r"2.0 at index \(0, 1\)"),
        (torch.zeros(1, 2), torch.tensor([[0.0, -1.0]]), "-1.0"),
        (torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.long), "int64"),
    ],
)
def test_wrong_input_is_named(logits, targets, message):
    with pytest.raises(ValueError, match=message):
        PartialLabelBCE()(logits, targets)


def test_unknown_reduction():
    with pytest.raises(ValueError, match="average"):
        PartialLabelBCE("average")


def test_check_targets_accepts_the_contract():
    check_targets(torch.tensor([[0.0, 1.0, NAN]]))


def test_criteria_are_asked_whether_they_know_unknown_labels():
    assert knows_unknown(PartialLabelBCE())
    assert not knows_unknown(nn.BCEWithLogitsLoss())
    assert not knows_unknown(nn.MultiLabelSoftMarginLoss())
    assert not knows_unknown(nn.CrossEntropyLoss())


def test_a_finite_loss_with_a_gradient_that_is_not_is_refused():
    def nan_mean(logits, targets):
        each = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return each.nanmean()

    assert torch.isfinite(nan_mean(torch.zeros(1, 2), torch.tensor([[1.0, NAN]])))
    assert not knows_unknown(nan_mean)


def test_check_criterion_says_which_to_use():
    partial, complete = Data(torch.tensor([[1.0, NAN]])), Data(torch.tensor([[1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"BCEWithLogitsLoss.*PartialLabelBCE"):
        check_criterion(nn.BCEWithLogitsLoss(), partial)
    check_criterion(PartialLabelBCE(), partial)
    check_criterion(nn.BCEWithLogitsLoss(), complete)


def test_a_criterion_of_full_width_is_asked_at_full_width():
    class Weighted(PartialLabelBCE):
        def __init__(self):
            super().__init__("none")
            self.register_buffer("weight", torch.ones(5))

        def forward(self, logits, targets):
            return (super().forward(logits, targets) * self.weight).mean()

    check_criterion(Weighted(), Data(torch.full((3, 5), NAN)))


def test_label_matrix_from_what_data_sets_have():
    rows = [torch.tensor([1.0, NAN]), torch.tensor([0.0, 1.0])]
    torch.testing.assert_close(label_matrix(Data(rows)), torch.stack(rows), equal_nan=True)
    with pytest.raises(ValueError, match="targets"):
        label_matrix(object())
    with pytest.raises(ValueError, match="one label vector"):
        label_matrix(Data(torch.tensor([1, 2, 3])))
