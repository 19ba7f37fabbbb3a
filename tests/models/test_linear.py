"""Linear layers on oneDNN compute what torch's do; also on machines where they would not be chosen."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rebll_avalanche.models import build_model, linear
from rebll_avalanche.models.linear import QuickLinear, gains_linear

has_operator = hasattr(torch.ops.mkldnn, "_linear_pointwise")
pytestmark = pytest.mark.skipif(not has_operator, reason="torch without oneDNN")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 96), (2, 7, 96), (1, 3, 2, 96)])
def test_gradients_are_those_of_torch(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(96, 80, bias=bias)
    found = []
    for layer in (plain, QuickLinear(plain)):
        vectors = torch.rand(shape, generator=torch.Generator().manual_seed(1)).requires_grad_()
        output = layer(vectors)
        found.append(
            [output, *torch.autograd.grad(output.square().sum(), [vectors, *layer.parameters()])]
        )
    for ours, wanted in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)


def test_vectors_that_are_not_contiguous() -> None:
    plain, vectors = nn.Linear(96, 80), torch.rand(96, 6).t()
    torch.testing.assert_close(QuickLinear(plain)(vectors), plain(vectors))


def test_lower_precision_is_torchs_own() -> None:
    layer = QuickLinear(nn.Linear(96, 80))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.rand(2, 96)).dtype == torch.bfloat16


@pytest.mark.parametrize("faster", [True, False])
def test_transformers_use_it_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, faster: bool
) -> None:
    monkeypatch.setattr(linear, "onednn_is_faster", lambda: faster)
    torch.manual_seed(0)
    model = build_model("vit_tiny_patch16_224")
    assert any(isinstance(layer, QuickLinear) for layer in model.modules()) is faster


def test_a_transformer_trains_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    images, found = torch.rand(2, 3, 224, 224), []
    for faster in (True, False):
        monkeypatch.setattr(linear, "onednn_is_faster", lambda faster=faster: faster)
        torch.manual_seed(0)
        model = build_model("vit_tiny_patch16_224")
        model.head.grow(3)
        model(images).square().sum().backward()
        found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, wanted in found[1].items():
        largest = wanted.abs().max().clamp(min=1e-6)
        torch.testing.assert_close(
            found[0][name] / largest, wanted / largest, rtol=1e-3, atol=1e-4, msg=name
        )


def test_small_layers_stay() -> None:
    assert not gains_linear(nn.Linear(8, 4096))


def test_an_expanded_input_has_the_gradient_of_the_plain_layer():
    layer = nn.Linear(96, 64)
    quick = QuickLinear(layer)
    rows = torch.rand(1, 96).expand(6, 96)
    (wanted,) = torch.autograd.grad(layer(rows).square().sum(), layer.weight)
    (found,) = torch.autograd.grad(quick(rows).square().sum(), quick.weight)
    torch.testing.assert_close(found, wanted)
