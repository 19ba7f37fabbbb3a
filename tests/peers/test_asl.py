"""The asymmetric loss against Alibaba-MIIL/ASL, with the settings that KRT and L3A use."""

import pytest
import torch

from rebll_avalanche.plugins.krt import asl_loss


@pytest.fixture
def numbers(peer):
    return peer("asl")


def test_loss_and_gradient(numbers, near):
    exponent, _, margin = numbers["krt_settings"].tolist()
    logits = numbers["logits"].requires_grad_()
    loss = asl_loss(logits, numbers["targets"], exponent=exponent, margin=margin).sum()
    loss.backward()
    assert logits.grad is not None
    near(loss, numbers["krt_loss"], 2e-5)
    near(loss, numbers["krt_loss_optimized"], 2e-5)
    near(logits.grad, numbers["krt_grad"], 5e-7)
    near(logits.grad, numbers["krt_grad64"], 2e-6)


@pytest.mark.parametrize(("label", "kind"), [(1.0, "positive"), (0.0, "negative")])
def test_every_logit_on_a_grid(numbers, near, label, kind):
    logits = numbers["grid"].requires_grad_()
    loss = asl_loss(logits, torch.full_like(logits, label))
    loss.sum().backward()
    assert logits.grad is not None
    near(loss, numbers[f"krt_grid_{kind}"], 5e-6)
    near(logits.grad, numbers[f"krt_grid_{kind}_grad"], 2e-6)


def test_a_positive_far_off_still_has_a_gradient():
    """The release clamps probabilities and loses it."""
    logits = torch.tensor([-30.0], requires_grad=True)
    asl_loss(logits, torch.ones(1)).sum().backward()
    assert logits.grad is not None
    assert logits.grad.item() == pytest.approx(-1)
