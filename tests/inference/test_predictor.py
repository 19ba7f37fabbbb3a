import copy
import importlib.util
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from rebll_avalanche.inference.predictor import load_run, overlay, reduced
from rebll_avalanche.models import GrowingHead, GrowingLinear
from rebll_avalanche.pictures import read_picture
from rebll_avalanche.running.build import build_benchmark


@pytest.fixture(scope="module")
def trained(trained_run):
    return load_run(trained_run)


def test_the_loaded_model_repeats_the_scores_of_the_run(trained, trained_run):
    dataset = build_benchmark(trained.config).test_stream[-1].dataset
    inputs = torch.stack([dataset[index][0] for index in range(len(dataset))])
    with np.load(trained_run / "scores.npz") as stored:
        expected = stored["scores"]
        assert list(stored["class_names"]) == list(trained.class_names)
    np.testing.assert_allclose(trained.scores(inputs).numpy(), expected, atol=1e-5)


def test_an_answer_needs_neither_avalanche_nor_what_only_training_needs(trained_run):
    """All that a process imports to predict and to draw maps, before torch's exporter comes in."""
    code = (
        "import sys; from PIL import Image; from rebll_avalanche import load_run\n"
        f"trained = load_run({str(trained_run)!r}); picture = Image.new('RGB', (60, 50))\n"
        "trained.predict([picture]); trained.activation_maps(trained.prepare([picture]))\n"
        "heavy = {'avalanche', 'timm', 'torchvision', 'sklearn', 'torch._dynamo'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_picture_is_prepared_as_the_test_images_were(trained):
    inputs = build_benchmark(trained.config).test_stream[-1].dataset[0][0]
    picture = Image.fromarray((inputs.permute(1, 2, 0) * 255).round().byte().numpy())
    torch.testing.assert_close(trained.prepare([picture])[0], inputs)
    assert trained.prepare([picture.resize((80, 30))]).shape == (1, 3, 48, 48)


def test_predictions_are_sorted_and_complete(trained):
    picture = Image.new("RGB", (60, 50), "red")
    (answer,) = trained.predict([picture])
    assert set(answer) == set(trained.class_names)
    assert list(answer.values()) == sorted(answer.values(), reverse=True)
    row = trained.scores(trained.prepare([picture]))[0]
    assert answer[trained.class_names[3]] == pytest.approx(float(row[3]))


def test_maps_are_the_positive_evidence_for_each_class(trained):
    inputs = torch.rand(2, 3, 48, 48)
    maps = trained.activation_maps(inputs)
    assert maps.shape == (2, 20, 6, 6)
    assert maps.amin() >= 0
    with torch.no_grad():
        features = trained.model.features(inputs)
    evidence = torch.einsum("bdhw,cd->bchw", features, trained.model.head.weight).clamp(min=0)
    some = evidence.amax(dim=(2, 3)) > 0
    assert some.any()
    torch.testing.assert_close(maps.amax(dim=(2, 3)), some.float())
    scaled = evidence[some] / evidence[some].amax(dim=(1, 2), keepdim=True)
    torch.testing.assert_close(maps[some], scaled)


class Blind(GrowingLinear):
    """A head that cannot say where."""

    class_activation_maps = GrowingHead.class_activation_maps


@pytest.mark.skipif(importlib.util.find_spec("captum") is None, reason="captum is not installed")
def test_a_head_without_maps_gets_grad_cam(trained):
    inputs = torch.rand(2, 3, 48, 48)
    own = trained.activation_maps(inputs)
    model = copy.deepcopy(trained.model)
    model.head.__class__ = Blind
    blind = replace(trained, model=model)
    # For average pooling and a linear head Grad-CAM is the plain map, scaled.
    torch.testing.assert_close(blind.activation_maps(inputs), own, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        trained.activation_maps(inputs, grad_cam=True), own, atol=1e-4, rtol=1e-4
    )


@pytest.mark.skipif(importlib.util.find_spec("captum") is None, reason="captum is not installed")
def test_grad_cam_refuses_features_that_are_no_map(trained):
    model = copy.deepcopy(trained.model)
    model.backbone = torch.nn.Sequential(
        model.backbone, torch.nn.Flatten(2), torch.nn.Unflatten(2, (1, -1))
    )
    with pytest.raises(ValueError, match=r"ends in a square map, got \(1, 1, 1, 36\)"):
        replace(trained, model=model).activation_maps(torch.rand(1, 3, 48, 48), grad_cam=True)


def test_without_captum_the_way_to_it_is_named(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(ValueError, match=r"pip install 'rebll-avalanche\[cam\]'"):
        trained.activation_maps(torch.rand(1, 3, 48, 48), grad_cam=True)


def test_an_overlay_dims_what_is_not_evidence():
    picture = Image.new("RGB", (700, 350), (200, 200, 200))
    activation = torch.zeros(4, 4)
    activation[1, 1] = 1.0
    pixels = np.asarray(overlay(picture, activation)).astype(int)
    assert pixels.shape == (160, 320, 3)
    assert pixels[-1, -1].tolist() == [150, 150, 150]
    red, _, blue = pixels[60, 120]
    assert red > blue + 60
    assert picture.size == (700, 350)
    assert reduced(Image.new("L", (10, 5))).size == (10, 5)


def test_unreadable_pictures_are_named(tmp_path):
    (tmp_path / "text.jpg").write_text("not a picture")
    with pytest.raises(ValueError, match=r"cannot read .*text\.jpg"):
        read_picture(tmp_path / "text.jpg")
    with pytest.raises(ValueError, match=r"there is no file .*gone\.jpg"):
        read_picture(tmp_path / "gone.jpg")


def test_folders_that_are_not_finished_runs_are_refused(trained_run, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a run: it has no config\.yaml"):
        load_run(tmp_path)
    shutil.copy(trained_run / "config.yaml", tmp_path)
    with pytest.raises(FileNotFoundError, match="has not finished its first experience"):
        load_run(tmp_path)


@pytest.fixture
def edited_run(trained_run, tmp_path):
    """A function that copies the run with other settings in one section."""

    def edit(section, **settings):
        folder = shutil.copytree(trained_run, tmp_path / "run")
        record = yaml.safe_load((folder / "config.yaml").read_text())
        record[section] |= settings
        (folder / "config.yaml").write_text(yaml.safe_dump(record))
        (folder / "manifest.json").unlink()  # or the edit itself is refused
        return folder

    return edit


def test_a_run_on_vectors_cannot_look_at_pictures(edited_run):
    with pytest.raises(ValueError, match=r"inputs of shape \(512,\), not on images"):
        load_run(edited_run("environment", input_shape=[512]))


def test_weights_of_another_network_are_refused(edited_run):
    with pytest.raises(ValueError, match=r"do not fit the network .* rebll-avalanche \d"):
        load_run(edited_run("model", head="gcn"))


def test_speed_options_of_the_training_are_dropped(edited_run):
    folder = edited_run("training", precision="bfloat16", compile=True)
    assert load_run(folder).model.precision in (None, torch.float32)
