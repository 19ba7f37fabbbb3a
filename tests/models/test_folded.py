"""Folded backbones answer as plain ones do, for as long as the weights stay the same."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from rebll_avalanche.models import MultiLabelModel, build_model
from rebll_avalanche.models.folded import FoldedBackbone


def learned(name: str) -> MultiLabelModel:
    """A network whose batch norms have something to do, in evaluation mode."""
    torch.manual_seed(0)
    model = build_model(name)
    model.head.grow(4)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.2)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.bias, std=0.2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    return model.eval()


def norms(network: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())


# Plain pairs, norms that end with an activation, norms before convolutions, no norm at all.
@pytest.mark.parametrize(
    "name", ["small_cnn", "resnet10t", "tf_efficientnet_lite0", "densenetblur121d", "convnext_atto"]
)
def test_answers_agree_with_the_plain_network(name: str) -> None:
    model, images = learned(name), torch.rand(3, 3, 64, 64)
    plain = model(images).detach()  # with autograd, nothing is folded
    with torch.inference_mode():
        answers = model(images)
    scale = plain.abs().max()
    torch.testing.assert_close(answers / scale, plain / scale, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["small_cnn", "resnet10t", "tf_efficientnet_lite0"])
def test_no_batch_norm_is_left(name: str) -> None:
    model = learned(name)
    assert norms(model) > 0
    with torch.no_grad():
        copied = FoldedBackbone().of(model.backbone, torch.rand(1, 3, 64, 64))
    assert norms(copied) == 0


class SeenTwice(nn.Module):
    """The convolution's map is used beside the norm, so the norm must not be folded into it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, images: Tensor) -> Tensor:
        made = self.convolution(images)
        return made + self.norm(made)


def test_a_map_that_others_use_too_is_left_alone() -> None:
    network = SeenTwice().eval()
    nn.init.constant_(network.norm.running_mean, 0.5)
    with torch.no_grad():
        assert FoldedBackbone().of(network, torch.rand(1, 3, 8, 8)) is network


@torch.no_grad()
def test_a_map_that_others_use_too_is_found_once_the_norm_does_something() -> None:
    """A new batch norm changes nothing, so that a wrong copy would agree until training has begun."""
    network, images, copies = SeenTwice().eval(), torch.rand(1, 3, 8, 8), FoldedBackbone()
    copies.of(network, images)
    network.norm.running_mean.fill_(0.5)
    assert copies.of(network, images) is network


@pytest.mark.parametrize("side", [64, 75, 90])
def test_maps_are_padded_as_in_tensorflow_whatever_their_size(side: int) -> None:
    model, images = learned("tf_efficientnet_lite0"), torch.rand(2, 3, side, side + 1)
    plain = model(images).detach()
    with torch.inference_mode():
        torch.testing.assert_close(model(images), plain, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_replaced_layer_is_noticed() -> None:
    model, images = learned("resnet10t"), torch.rand(2, 3, 64, 64)
    before = model(images)
    model.backbone.network.maxpool = nn.AvgPool2d(3, 2, 1)
    with torch.enable_grad():
        plain = model(images).detach()
    assert (plain - before).abs().max() > 1e-3
    torch.testing.assert_close(model(images), plain, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_changed_weights_are_noticed() -> None:
    model, images = learned("small_cnn"), torch.rand(2, 3, 48, 48)

    def plain() -> Tensor:
        with torch.enable_grad():
            return model(images).detach()

    before = model(images)
    next(model.backbone.parameters()).mul_(1.5)
    assert (model(images) - before).abs().max() > 1e-3
    torch.testing.assert_close(model(images), plain(), atol=1e-5, rtol=1e-4)
    model.load_state_dict({k: v * 1.1 for k, v in model.state_dict().items()})
    torch.testing.assert_close(model(images), plain(), atol=1e-5, rtol=1e-4)
    model.train()(images)  # moves the statistics
    model.eval()
    torch.testing.assert_close(model(images), plain(), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_it_is_no_part_of_the_model() -> None:
    model, images = learned("small_cnn"), torch.rand(2, 3, 48, 48)
    names, modules = list(model.state_dict()), len(list(model.modules()))
    size = len(pickle.dumps(model))
    answers = model(images)
    assert list(model.state_dict()) == names
    assert len(list(model.modules())) == modules
    assert len(pickle.dumps(model)) == size
    assert torch.equal(copy.deepcopy(model)(images), answers)


@torch.no_grad()
def test_who_looks_inside_sees_the_maps_of_the_network_itself() -> None:
    model, images = learned("small_cnn"), torch.rand(2, 3, 48, 48)
    model(images)
    seen = []
    norm = next(m for m in model.backbone.modules() if isinstance(m, nn.BatchNorm2d))
    norm.register_forward_hook(lambda module, given, output: seen.append(output))
    model(images)
    assert len(seen) == 1
