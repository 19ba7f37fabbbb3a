"""DER++ against aimagelab/mammoth, POD against its authors' code and KRT's copy of it."""

import pytest
import torch
from torch.nn.functional import linear

from rebll_avalanche.losses import bce_loss
from rebll_avalanche.plugins.der import stored_logit_loss
from rebll_avalanche.plugins.podnet import flat_loss, spatial_loss


@pytest.fixture
def numbers(peer):
    return peer("derpp_pod")


@pytest.mark.parametrize("setting", range(5))
def test_der(numbers, near, setting):
    weight, bias = numbers["der_weight"].requires_grad_(), numbers["der_bias"]
    alpha, beta = numbers[f"der_settings_{setting}"].tolist()
    logits = {
        name: linear(numbers[f"der_{name}"], weight, bias)
        for name in ("inputs", "logit_inputs", "label_inputs")
    }
    loss = (
        bce_loss(logits["inputs"], numbers["der_labels"])
        + alpha * stored_logit_loss(logits["logit_inputs"], numbers["der_stored_logits"])
        + beta * bce_loss(logits["label_inputs"], numbers["der_stored_labels"])
    )
    loss.backward()
    assert weight.grad is not None
    near(loss, numbers[f"der_loss_{setting}"], 2e-7)
    near(weight.grad, numbers[f"der_grad_weight_{setting}"], 1e-7)


def test_pod_of_maps(numbers, near):
    maps = [numbers[f"pod_map_{i}"].requires_grad_() for i in range(3)]
    loss = spatial_loss(maps, [numbers[f"pod_teacher_map_{i}"] for i in range(3)])
    loss.backward()
    near(loss, numbers["pod_spatial"], 1e-7)
    near(loss, numbers["pod_spatial_krt"], 1e-7)
    for place, feature_map in enumerate(maps):
        assert feature_map.grad is not None
        near(feature_map.grad, numbers[f"pod_grad_{place}"], 1e-7)


def test_pod_of_embeddings(numbers, near):
    embedding = numbers["flat_embedding"].requires_grad_()
    loss = flat_loss(embedding, numbers["flat_teacher_embedding"])
    loss.backward()
    assert embedding.grad is not None
    near(loss, numbers["pod_flat"], 2e-7)
    near(embedding.grad, numbers["pod_flat_grad"], 2e-8)
    assert torch.isfinite(embedding.grad).all()
