"""Depthwise convolutions with their own backward pass compute what torch's do."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from rebll_avalanche.models import build_model
from rebll_avalanche.models.depthwise import DepthwiseConv2d
from rebll_avalanche.models.quick import quicken

LAST = torch.channels_last


def gradients(layer: nn.Module, images: Tensor) -> list[Tensor]:
    """Output and all gradients of a weighted sum of the output."""
    images = images.clone(memory_format=torch.preserve_format).requires_grad_()
    output = layer(images)
    weights = torch.rand(output.shape, generator=torch.Generator().manual_seed(1))
    found = torch.autograd.grad((output * weights).sum(), [images, *layer.parameters()])
    return [output.detach(), *found]


def same(stride: int, kernel: int) -> nn.Conv2d:
    """timm's layer that pads as TensorFlow does."""
    from timm.layers.conv2d_same import Conv2dSame

    layer: nn.Conv2d = Conv2dSame(8, 8, kernel, stride, groups=8, bias=False)
    return layer


@pytest.mark.parametrize("size", [(3, 3), (4, 9), (9, 4), (12, 12), (13, 17)])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("kernel", [4, 5, 7, (3, 5), (5, 3), (9, 9)])
def test_gradients_are_those_of_torch(
    kernel: int | tuple[int, int], stride: int, size: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    rows, columns = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    plain = nn.Conv2d(8, 8, (rows, columns), stride, (rows // 2, columns // 2), groups=8)
    images = torch.rand(3, 8, *size).contiguous(memory_format=LAST)
    for found, wanted in zip(
        gradients(DepthwiseConv2d(plain), images), gradients(plain, images), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(3, 3), (9, 4), (12, 12), (13, 17)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
def test_padding_that_depends_on_the_map(kernel: int, stride: int, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    plain = same(stride, kernel)
    for layout in (LAST, torch.contiguous_format):
        images = torch.rand(3, 8, *size).contiguous(memory_format=layout)
        for found, wanted in zip(
            gradients(DepthwiseConv2d(plain), images), gradients(plain, images), strict=True
        ):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        with torch.inference_mode():
            torch.testing.assert_close(DepthwiseConv2d(plain)(images), plain(images))


def test_same_bits_every_time() -> None:
    layer = DepthwiseConv2d(nn.Conv2d(16, 16, 5, padding=2, groups=16))
    images = torch.rand(4, 16, 12, 12).contiguous(memory_format=LAST)
    once, again = gradients(layer, images), gradients(layer, images)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


def test_only_what_needs_a_gradient_gets_one() -> None:
    layer = DepthwiseConv2d(nn.Conv2d(4, 4, 5, padding=2, groups=4))
    images = torch.rand(2, 4, 8, 8).contiguous(memory_format=LAST)
    layer.weight.requires_grad_(False)
    layer(images).sum().backward()  # nothing asks for the images' gradient either
    assert layer.weight.grad is None
    assert layer.bias is not None
    assert layer.bias.grad is not None


def test_what_is_replaced() -> None:
    network = nn.Sequential(
        nn.Conv2d(4, 4, 5, groups=4),
        nn.Conv2d(4, 4, 3, groups=4),  # fast already
        nn.Conv2d(4, 8, 5, groups=4),  # not depthwise
        nn.Conv2d(4, 4, 5, groups=4, dilation=2),
        nn.Conv2d(4, 4, 5, groups=4, padding="same"),
        nn.Conv2d(4, 4, 5, groups=4, padding_mode="reflect"),
        same(2, 3),
    )
    before = network.state_dict()
    quicken(network)
    replaced = [isinstance(layer, DepthwiseConv2d) for layer in network]
    assert replaced == [True, False, False, False, False, False, True]
    assert before.keys() == network.state_dict().keys()


def test_a_network_trains_as_before() -> None:
    """The backward pass of a whole network, beside that of its layers as timm makes them."""
    import timm

    torch.manual_seed(0)
    model = build_model("tf_efficientnet_lite0")
    ours = model.backbone.network.eval()
    assert sum(isinstance(layer, DepthwiseConv2d) for layer in ours.modules()) > 5
    plain = timm.create_model("tf_efficientnet_lite0", num_classes=0, global_pool="").eval()
    plain.load_state_dict(ours.state_dict())
    images = torch.rand(2, 3, 64, 64).contiguous(memory_format=LAST)
    for network in (ours, plain):
        network.forward_features(images).square().mean().backward()
    names = [name for name, _ in plain.named_parameters()]
    for name in names:
        wanted = plain.get_parameter(name).grad
        found = ours.get_parameter(name).grad
        assert wanted is not None
        assert found is not None
        largest = wanted.abs().max()
        torch.testing.assert_close(found / largest, wanted / largest, rtol=1e-3, atol=1e-4)


def test_copies_have_their_own_weights() -> None:
    layer = DepthwiseConv2d(nn.Conv2d(4, 4, 5, padding=2, groups=4))
    copied = copy.deepcopy(layer)
    with torch.no_grad():
        layer.weight.zero_()
    assert copied.weight.any()
