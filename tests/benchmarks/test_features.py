"""Vectors of a frozen backbone in place of pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from rebll_avalanche import Learner
from rebll_avalanche.benchmarks import MultiLabelScenes
from rebll_avalanche.benchmarks.features import FrozenFeatures, check_same_weights
from rebll_avalanche.benchmarks.images import ImageArray, ImageFiles, Rows
from rebll_avalanche.benchmarks.transforms import KeepAspect, evaluation_transform
from rebll_avalanche.cli import main
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.inference.onnx_export import export_onnx
from rebll_avalanche.inference.predictor import TrainedModel, load_run
from rebll_avalanche.models.windows import window_means
from rebll_avalanche.pictures import decode_picture, read_picture
from rebll_avalanche.report.one_run import WORST
from rebll_avalanche.running.folder import read_config
from rebll_avalanche.running.run import run_experiment

PICTURES = np.random.RandomState(0).randint(0, 256, (3, 20, 20, 3), dtype=np.uint8)


@pytest.fixture
def frozen(tmp_path: Path) -> FrozenFeatures:
    # "test_efficientnet" is timm's smallest, with random weights.
    torch.manual_seed(0)
    return FrozenFeatures("test_efficientnet", pretrained=None, image_size=32, folder=tmp_path)


def test_vectors_are_the_mean_of_the_last_map(frozen: FrozenFeatures, tmp_path: Path) -> None:
    vectors = frozen(ImageArray(PICTURES))
    transform = evaluation_transform(32)
    batch = torch.stack([transform(Image.fromarray(picture)) for picture in PICTURES])
    expected = frozen.model.features(batch).mean(dim=(2, 3))
    torch.testing.assert_close(vectors, expected)
    (kept,) = tmp_path.glob("*.npz")
    written = kept.stat().st_mtime_ns
    assert torch.equal(frozen(ImageArray(PICTURES)), vectors)
    assert kept.stat().st_mtime_ns == written
    frozen(ImageArray(PICTURES[:2]))  # other pictures, another file
    assert len(list(tmp_path.glob("*.npz"))) == 2


def test_damaged_vectors_are_computed_again(frozen: FrozenFeatures, tmp_path: Path) -> None:
    vectors = frozen(ImageArray(PICTURES))
    (kept,) = tmp_path.glob("*.npz")
    kept.write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match="is damaged"):
        again = frozen(ImageArray(PICTURES))
    assert torch.equal(again, vectors)


def test_files_that_do_not_decode_and_what_is_no_picture(
    frozen: FrozenFeatures, tmp_path: Path
) -> None:
    Image.fromarray(PICTURES[0]).save(tmp_path / "whole.png")
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    vectors = frozen(ImageFiles([tmp_path / "broken.png", tmp_path / "whole.png"]))
    assert vectors[0].abs().sum() == 0
    assert vectors[1].abs().sum() > 0
    with pytest.raises(ValueError, match="from images, got Rows"):
        frozen(Rows(torch.zeros(2, 3)))


def test_pictures_of_about_their_own_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many sizes, more than may wait: each has the vector that it has alone."""
    monkeypatch.setattr("rebll_avalanche.benchmarks.feature_batches.BATCH_PIXELS", 4 * 64**2)
    monkeypatch.setattr("rebll_avalanche.benchmarks.features.WAITING_PIXELS", 6 * 64**2)
    generator = np.random.RandomState(0)
    paths = []
    for number, (width, height) in enumerate(
        [(20, 20), (20, 60), (70, 20), (20, 61), (33, 21)] * 3
    ):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(generator.randint(0, 256, (height, width, 3), dtype=np.uint8)).save(
            paths[-1]
        )
    torch.manual_seed(0)
    options = {"pretrained": None, "image_size": 64, "folder": tmp_path}
    frozen = FrozenFeatures("test_efficientnet", keep_aspect=True, **options)
    looked_at: list[int] = []
    features = frozen.model.features
    frozen.model.features = lambda x: looked_at.append(x[:, 0].numel()) or features(x)
    vectors = frozen(ImageFiles(paths))
    assert max(looked_at) <= 4 * 64**2
    transform = KeepAspect(64)
    sizes = set()
    with torch.no_grad():
        for path, vector in zip(paths, vectors, strict=True):
            picture = transform(Image.open(path).convert("RGB"))
            sizes.add(tuple(picture.shape[1:]))
            alone = frozen.model.features(picture[None]).mean(dim=(2, 3))[0]
            torch.testing.assert_close(vector, alone, rtol=1e-4, atol=1e-5)
    assert sizes == {(64, 64), (192, 64), (64, 224), (64, 96)}
    torch.manual_seed(0)
    squares = FrozenFeatures("test_efficientnet", **options)(ImageFiles(paths))  # kept apart
    assert not torch.allclose(squares[1], vectors[1])
    with pytest.raises(ValueError, match=r"maps until 'blocks\.1'"):
        FrozenFeatures("test_efficientnet", keep_aspect=True, until="blocks.1", **options)


def test_a_benchmark_of_vectors(frozen: FrozenFeatures) -> None:
    options = {"train_size": 60, "test_size": 60, "image_size": 16}
    pictures = MultiLabelScenes("B10-C10", **options)
    vectors = MultiLabelScenes("B10-C10", features=frozen, **options)
    for before, after in zip(pictures.train_stream, vectors.train_stream, strict=True):
        assert torch.equal(before.image_indices, after.image_indices)
        x, y = after.dataset[0]
        assert x.shape == (frozen.model.backbone.num_features,)
        torch.testing.assert_close(y, before.dataset[0][1], equal_nan=True)


def test_a_run_on_maps_of_the_first_part(tmp_path: Path) -> None:
    settings = {
        "name": "scenes",
        "scenario": "B10-C10",
        "train_size": 60,
        "test_size": 60,
        "image_size": 32,
        "features": "tf_efficientnet_lite0",
        "features_until": "blocks.5",
        "image_cache": str(tmp_path / "cache"),
    }
    config = Config.from_dict(
        {
            "benchmark": settings,
            "model": {"backbone": "tf_efficientnet_lite0", "pretrained": "pypi"},
            "method": {"name": "csc-r", "mem_size": 4},
            "training": {"epochs": 1, "device": "cpu"},
        }
    )
    run_experiment(config, tmp_path / "run")
    assert read_config(tmp_path / "run")["environment"]["input_shape"] == [192, 1, 1]
    # Its model takes pictures, and says of these what it said of their maps.
    trained = load_run(tmp_path / "run")
    benchmark = MultiLabelScenes("B10-C10", train_size=60, test_size=60, image_size=32)
    pictures = [Image.fromarray(picture) for picture in benchmark.scenes["test"].images]
    with np.load(tmp_path / "run" / "scores.npz") as kept:
        said = torch.from_numpy(kept["scores"])
        # The report shows the worst pictures, not their maps.
        worst = {int(name[8:]): kept[name] for name in kept.files if name.startswith("picture_")}
    assert 0 < len(worst) <= WORST
    for row, small in worst.items():
        assert decode_picture(small.tobytes()).size == pictures[row].size
    now = trained.scores(trained.prepare(pictures))
    torch.testing.assert_close(now, said.to(now), atol=1e-3, rtol=0)


def test_a_run_on_vectors(tmp_path: Path) -> None:
    benchmark = {
        "name": "scenes",
        "scenario": "B10-C10",
        "train_size": 60,
        "test_size": 60,
        "image_size": 32,
        "features": "test_efficientnet",
        "features_pretrained": None,
        "image_cache": str(tmp_path / "cache"),
    }
    config = Config.from_dict(
        {
            "benchmark": benchmark,
            "model": {"backbone": "vector", "hidden": 8},
            "method": {"name": "rebll", "mem_size": 4},
            "training": {"epochs": 1, "device": "cpu"},
        }
    )
    records = run_experiment(config, tmp_path / "run")
    channels = read_config(tmp_path / "run")["environment"]["input_shape"][0]
    assert records[-1]["trainable_parameters"] == channels * 8 + 8 + 8 * 20 + 20
    assert read_config(tmp_path / "run")["weights"]["name"] == "test_efficientnet"


@pytest.mark.parametrize(
    ("method", "hidden", "aspect", "until"),
    [
        ("closed-form", 0, "kept", None),
        ("closed-form", 0, "square", None),
        ("rebll", 8, "kept", None),
        ("csc-r", 0, "square", None),
        ("rebll", 0, "square", "blocks.5"),
    ],
)
def test_a_run_on_features_looks_at_pictures_and_learns_more(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    method: str,
    hidden: int,
    aspect: str,
    until: str | None,
) -> None:
    trained, picture = run_and_opened(
        tmp_path,
        method,
        hidden,
        {"features": "tf_efficientnet_lite0", "features_aspect": aspect, "features_until": until},
    )
    run = trained.folder
    inputs = trained.prepare([picture])
    assert trained.activation_maps(inputs).shape == (1, 2, 2, 4 if aspect == "kept" else 2)
    assert main(["cam", str(run), "--count", "2"]) == 0
    file = next(path for path in (run / "cam").iterdir() if path.suffix != ".json")
    with Image.open(file) as shown:
        assert shown.size in ((40, 40), (70, 40))
    if aspect == "kept":
        assert main(["export", str(run), "--onnx", str(tmp_path / "model.onnx")]) == 0
        assert "so scores of other shapes differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("method", "features", "windows"),
    [
        ("closed-form", "tf_efficientnet_lite0@64+tf_efficientnet_lite0@96", False),
        ("closed-form", "tf_efficientnet_lite0@64+tf_efficientnet_lite0@96", True),
        ("rebll", "tf_efficientnet_lite0", True),
    ],
)
def test_several_backbones_and_windows(
    tmp_path: Path, method: str, features: str, windows: bool
) -> None:
    settings = {"features": features, "features_aspect": "kept", "features_windows": windows}
    trained, picture = run_and_opened(tmp_path, method, 0, settings)
    inputs = trained.prepare([picture, picture.rotate(90, expand=True)])
    assert inputs.shape == (2, *([17] if windows else []), 1280 * (1 + features.count("+")))
    with pytest.raises(ValueError, match="several views per image, an ONNX file has one"):
        export_onnx(replace(trained, keep_aspect=False), tmp_path / "model.onnx")
    if not windows:
        with pytest.raises(ValueError, match=r"no common map.*features_windows"):
            trained.activation_maps(inputs)
        return
    maps = trained.activation_maps(inputs)
    assert maps.shape == (2, 2, 4, 4)
    assert torch.equal(maps.amax(dim=(2, 3)), torch.ones(2, 2))
    assert main(["cam", str(trained.folder), "--count", "2"]) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"benchmark": {"features": "resnet18"}}, r"model\.backbone must be 'vector'"),
        (
            {"benchmark": {"features": "resnet18", "features_until": "layer3"}},
            r"maps, the input of the rest of resnet18.*model\.backbone must be 'resnet18'",
        ),
        ({"benchmark": {"features_until": "layer3"}}, r"'layer3' requires benchmark\.features"),
        ({"benchmark": {"features_aspect": "kept"}}, r"'kept' is for pooled features"),
        ({"benchmark": {"features_windows": True}}, r"features_windows is for pooled features"),
        ({"benchmark": {"features": "resnet18@big"}}, r"'resnet18@big' does not"),
        ({"benchmark": {"features": "resnet18+"}}, r"'resnet18\+' must look like.*'' does not"),
        (
            {"benchmark": {"features": "resnet18+resnet34", "features_until": "layer3"}},
            r"'layer3' requires a single backbone.*'resnet18\+resnet34'",
        ),
        ({"model": {"hidden": 8}}, r"model\.hidden requires model\.backbone 'vector'"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, dict[str, object]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config.from_dict(settings)


def run_and_opened(
    tmp_path: Path, method: str, hidden: int, features: dict[str, Any]
) -> tuple[TrainedModel, Image.Image]:
    """A run on features that knows its test scores and, opened as a learner, learns more; a picture."""
    pictures, tables = tmp_path / "pictures", {}
    pictures.mkdir()
    generator = np.random.RandomState(0)
    for part, names in (("first", ["cat", "dog"]), ("new", ["cow"])):
        tables[part] = tmp_path / f"{part}.csv"
        lines = ["file,labels,split"]
        for number in range(16):
            name, split = names[number % len(names)], "test" if number > 9 else "train"
            size = (40, 40 + 30 * (number % 2))
            pixels = generator.randint(0, 256, (*size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(pictures / f"{part}{number}.png")
            lines.append(f"{part}{number}.png,{name},{split}")
        tables[part].write_text("\n".join(lines) + "\n")
    backbone = features["features"] if features.get("features_until") else "vector"
    config = Config.from_dict(
        {
            "benchmark": {
                "name": "csv",
                "labels": str(tables["first"]),
                "root": str(pictures),
                "scenario": "B1-C1",
                "image_size": 64,
                "image_cache": str(tmp_path / "cache"),
                **features,
            },
            "model": {"backbone": backbone, "hidden": hidden},
            "method": {"name": method},
            "training": {"epochs": 1, "device": "cpu"},
        }
    )
    run = tmp_path / "run"
    run_experiment(config, run)
    trained = load_run(run)
    learner = Learner.from_run(run)
    assert trained.class_names == learner.class_names == ("cat", "dog")
    shown = [read_picture(pictures / f"first{n}.png") for n in range(10, 16)]
    with np.load(run / "scores.npz") as kept:
        said = kept["scores"]
    np.testing.assert_allclose(_scores(trained, shown), said, atol=1e-3)
    np.testing.assert_allclose(learner.scores(shown), said, atol=1e-3)
    hidden_table = tables["first"].rename(tmp_path / "elsewhere.csv")
    learner.learn(tables["new"], images=pictures)
    assert learner.class_names == ("cat", "dog", "cow")
    again = Learner.load(learner.save(tmp_path / "more.rebll"))
    np.testing.assert_allclose(
        _scores(again.trained_model(), shown), again.scores(shown), atol=1e-3
    )
    hidden_table.rename(tables["first"])
    return trained, shown[1]


def _scores(trained: TrainedModel, pictures: list[Image.Image]) -> list[list[float]]:
    return [[said[name] for name in trained.class_names] for said in trained.predict(pictures)]


def test_windows_stand_beside_the_whole_picture(tmp_path: Path) -> None:
    frozen = FrozenFeatures("test_efficientnet", pretrained=None, image_size=64, windows=True)
    pictures = [Image.fromarray(picture) for picture in PICTURES]
    found = frozen.of(pictures)
    assert found.shape == (3, 17, frozen.model.backbone.num_features)
    for size, expected in (
        (64, lambda maps: maps.mean(dim=(2, 3))),
        (96, lambda maps: window_means(maps).flatten(1)),
    ):
        transform = evaluation_transform(size)
        maps = frozen.model.features(torch.stack([transform(picture) for picture in pictures]))
        part = found[:, 0] if size == 64 else found[:, 1:].flatten(1)
        torch.testing.assert_close(part, expected(maps))


def test_features_of_other_weights_are_refused() -> None:
    made_with = {"source": "pypi:a.pth", "sha256": "1"}
    check_same_weights(made_with, made_with)
    with pytest.raises(ValueError, match="sha256 1, got sha256 2"):
        check_same_weights(made_with | {"sha256": "2"}, made_with)
    nothing = {"source": "random", "sha256": None}
    with pytest.raises(ValueError, match="random weights, which were not saved"):
        check_same_weights(nothing, nothing)
