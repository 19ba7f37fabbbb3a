"""The equations against a plain Python loop in float64, and at the ends of the number line."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits

from rebll_avalanche.losses import (
    adaptive_exponent,
    akd_loss,
    asymmetric_bce,
    bce_loss,
    cls_loss,
    er_loss,
    posterior_from_score,
)

NAN = float("nan")


def loop(logits, targets, g=0.0, b=0.0):
    """Equations (1) to (8), one entry at a time; None where the target is unknown."""
    rows = []
    for z_row, y_row in zip(logits.tolist(), targets.tolist(), strict=True):
        row = []
        for z, y in zip(z_row, y_row, strict=True):
            p = 1 / (1 + math.exp(-z))
            value = -y * (1 - p) ** g * math.log(p) - (1 - y) * p**b * math.log(1 - p)
            row.append(None if math.isnan(y) else value)
        rows.append(row)
    return rows


def mean_of(rows):
    values = [v for row in rows for v in row if v is not None]
    return sum(values) / len(values)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(7, 5, dtype=torch.float64, generator=generator)
    labels = (torch.rand(7, 5, generator=generator) > 0.7).double()
    soft = torch.rand(7, 5, dtype=torch.float64, generator=generator)
    return logits, labels, soft


@pytest.mark.parametrize("seen", [2, 20, 80])
def test_every_equation_equals_the_loop(batch, seen):
    logits, labels, soft = batch
    g, b = 1.2 * math.log(seen), 0.7 * math.log(seen)
    pairs = [
        (bce_loss(logits, labels), loop(logits, labels)),
        (bce_loss(logits, soft), loop(logits, soft)),
        (
            cls_loss(logits, labels, exponent=adaptive_exponent(1.2, seen)),
            loop(logits, labels, g=g),
        ),
        (akd_loss(logits, soft, exponent=adaptive_exponent(1.2, seen)), loop(logits, soft, g=g)),
        (er_loss(logits, labels, exponent=adaptive_exponent(0.7, seen)), loop(logits, labels, b=b)),
    ]
    for ours, theirs in pairs:
        assert ours.item() == pytest.approx(mean_of(theirs), abs=1e-10)


def test_reductions(batch):
    logits, labels, _ = batch
    rows = loop(logits, labels, g=2.0)
    total = sum(v for row in rows for v in row)
    matrix = cls_loss(logits, labels, exponent=2.0, reduction="none")
    assert torch.allclose(matrix, torch.tensor(rows, dtype=torch.float64), atol=1e-10)
    assert cls_loss(logits, labels, exponent=2.0, reduction="sum").item() == pytest.approx(total)
    assert cls_loss(logits, labels, exponent=2.0, reduction="class_sum").item() == pytest.approx(
        total / 7
    )
    with pytest.raises(ValueError, match="average"):
        cls_loss(logits, labels, exponent=2.0, reduction="average")


@pytest.mark.parametrize("detach", [False, True])
def test_gradient(batch, detach):
    logits, _, soft = batch
    logits.requires_grad_()

    def loss(z):
        return asymmetric_bce(z, soft, positive_exponent=2.5, negative_exponent=1.5)

    if not detach:
        assert torch.autograd.gradcheck(loss, (logits,))
        return
    # With the weight detached the gradient is that of a constant times the logarithm.
    value = asymmetric_bce(logits, soft, positive_exponent=2.5, detach_weight=True, reduction="sum")
    (gradient,) = torch.autograd.grad(value, logits)
    p = logits.detach().sigmoid()
    expected = -soft * (1 - p) ** 2.5 * (1 - p) + (1 - soft) * p
    assert torch.allclose(gradient, expected)


def test_exponent_zero_is_plain_bce(batch):
    logits, labels, soft = batch
    for targets in (labels, soft):
        plain = binary_cross_entropy_with_logits(logits, targets)
        assert torch.allclose(cls_loss(logits, targets, exponent=0.0), plain)
        assert torch.allclose(er_loss(logits, targets, exponent=0.0), plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1e4, 100.0, 0.0])
@pytest.mark.parametrize("target", [0.0, 0.5, 1.0])
def test_finite_at_the_ends(dtype, size, target):
    logits = torch.tensor([[size, -size]], dtype=dtype, requires_grad=True)
    loss = asymmetric_bce(
        logits, torch.full((1, 2), target), positive_exponent=5.3, negative_exponent=3.1
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_unknown_targets_are_ignored_with_exactly_zero_gradient():
    logits = torch.tensor([[0.3, NAN], [-2.0, 1e4]], requires_grad=True)
    targets = torch.tensor([[1.0, NAN], [NAN, NAN]])
    loss = cls_loss(logits, targets, exponent=2.0)
    loss.backward()
    assert loss.item() == pytest.approx(
        loop(logits[:1, :1], targets[:1, :1], g=2.0)[0][0], rel=1e-6
    )
    assert logits.grad[0, 0] != 0
    assert logits.grad.flatten()[1:].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("shape", [(1, 4), (3, 0), (0, 4), (0, 0)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "class_sum"])
def test_empty_and_single(shape, reduction):
    logits = torch.zeros(shape, requires_grad=True)
    loss = cls_loss(logits, torch.ones(shape), exponent=1.0, reduction=reduction)
    loss.backward()
    assert torch.isfinite(loss)
    assert (loss == 0) == (logits.numel() == 0)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(2, 4\)"):
        bce_loss(torch.zeros(2, 3), torch.zeros(2, 4))


def test_adaptive_exponent():
    assert adaptive_exponent(1.2, 20) == pytest.approx(1.2 * math.log(20))
    assert adaptive_exponent(1.2, 1) == 0.0
    with pytest.raises(ValueError, match="0"):
        adaptive_exponent(1.2, 0)


@given(p=st.floats(0.02, 0.98), g=st.floats(0.1, 6.0), detach=st.booleans())
def test_corrected_target_makes_the_teachers_score_optimal(p, g, detach):
    """The gradient of L_akd against the corrected target vanishes at the teacher's own score."""
    score = torch.tensor([[p]], dtype=torch.float64)
    logit = torch.logit(score).requires_grad_()
    target = posterior_from_score(score, g, detach_weight=detach)
    (gradient,) = torch.autograd.grad(
        akd_loss(logit, target, exponent=g, detach_weight=detach), logit
    )
    assert abs(gradient.item()) < 1e-9


def test_the_asymmetric_loss_shrinks_confident_scores():
    confident = torch.tensor([0.5, 0.7, 0.9])
    assert (posterior_from_score(confident, adaptive_exponent(1.2, 20)) > confident).all()


def test_corrected_target_at_the_ends():
    ends = posterior_from_score(torch.tensor([0.0, 1.0]), 3.0)
    assert torch.isfinite(ends).all()
    assert ends[0] < 1e-6
    assert ends[1] > 1 - 1e-6
