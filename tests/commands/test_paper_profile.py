"""The paper's network and settings, by one command, with a stand-in for the weights that timm downloads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import yaml
from PIL import Image

from rebll_avalanche.benchmarks.voc import VOC_CLASSES
from rebll_avalanche.cli import main
from rebll_avalanche.files import file_hash
from rebll_avalanche.inference.predictor import load_run

RECIPE = Path(__file__).parents[2] / "benchmarks" / "paper" / "voc.yaml"
BACKBONE = "tresnet_m.miil_in21k"


def write_devkit(root: Path) -> None:
    """Two training images and one test image of every class, drawn at random."""
    folder = root / "VOCdevkit" / "VOC2007"
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    lists: dict[str, list[str]] = {"trainval": [], "test": []}
    for index in range(3 * len(VOC_CLASSES)):
        name, classes = f"{index:06d}", {VOC_CLASSES[index % 20], VOC_CLASSES[(7 * index) % 20]}
        lists["trainval" if index < 40 else "test"].append(name)
        pixels = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((80, 64)).save(folder / "JPEGImages" / f"{name}.jpg")
        objects = "".join(
            f"<object><name>{one}</name><difficult>0</difficult></object>" for one in classes
        )
        xml = f"<annotation>{objects}</annotation>"
        (folder / "Annotations" / f"{name}.xml").write_text(xml)
    for split, names in lists.items():
        (folder / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(names))


def test_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    write_devkit(tmp_path / "data")
    # The published file has a head for ImageNet-21k, which must be left out.
    torch.manual_seed(5)
    published = timm.create_model(BACKBONE, num_classes=11221).state_dict()
    torch.save({"state_dict": published}, "tresnet_m.pth")
    command = ["run", str(RECIPE), "--profile", "paper", "--data-root", "data"]
    smaller = {"benchmark.scenario": "B10-C10", "benchmark.image_size": 64}
    smaller |= {"training.epochs": 1, "training.batch_size": 16, "training.num_workers": 0}
    for name, value in (smaller | {"model.pretrained": "tresnet_m.pth"}).items():
        command += [f"--{name}", str(value)]
    assert main(command) == 0
    folder = Path("runs/voc_B10-C10_rebll_seed0")
    assert f"results in {folder}" in capsys.readouterr().out

    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["weights"]["sha256"] == file_hash(Path("tresnet_m.pth"))
    assert config["method"]["mem_size"] == 40
    papers = {"optimizer": "adam", "lr": 4e-5, "weight_decay": 1e-4, "decay_head": True}
    assert {name: config["training"][name] for name in papers} == papers
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [step["classes_seen"] for step in steps] == [10, 20]
    # Trained from the file's weights: every layer has moved, by no more than Adam's few steps.
    trained = load_run(folder).model.backbone.network
    moved = {name: (it - published[name]).abs().max() for name, it in trained.named_parameters()}
    assert all(0 < change < 1e-3 for change in moved.values()), moved
