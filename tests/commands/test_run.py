"""``rebll run``, ``rebll show`` and ``rebll extend`` from a command line to their files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from rebll_avalanche.benchmarks import MultiLabelScenes
from rebll_avalanche.benchmarks.drawing import draw_scenes
from rebll_avalanche.cli import main

SMALL = """
benchmark: {name: scenes, scenario: B10-C10, train_size: 60, test_size: 60, image_size: 16}
training: {epochs: 1, batch_size: 32, device: cpu}
method: {mem_size: 4}
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(SMALL)
    return "recipe.yaml"


def test_run_extend_and_read(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", recipe, "--seed", "3", "--method.alpha", "1.0"]) == 0
    folder = Path("runs/scenes_B10-C10_rebll_seed3")
    shown = capsys.readouterr().out
    assert shown.splitlines()[2].split()[:2] == ["1", "20"]
    assert f"results in {folder}" in shown
    assert "<svg" in (folder / "report.html").read_text()

    assert main(["run", recipe, "--seed", "3", "--method.alpha", "1.0"]) == 0
    assert capsys.readouterr().out == shown
    assert main(["run", recipe, "--seed", "3", "--method.alpha", "1.5"]) == 2
    assert "method.alpha: was 1.0, is 1.5" in capsys.readouterr().err

    Path("new").mkdir()
    with open("new/labels.csv", "w", newline="") as lines:
        for index, image in enumerate(draw_scenes(10, 16, 9, 0).images):
            Image.fromarray(image).save(f"new/{index}.png")
            # The first class by name has one picture, so it is never tested.
            csv.writer(lines).writerow(
                [f"{index}.png", "something new" + ";a rarity" * (index == 0)]
            )
    assert main(["extend", str(folder), "new/labels.csv"]) == 0
    assert "new classes: a rarity, something new" in capsys.readouterr().out
    assert main(["verify", str(folder)]) == 0, "the run is as it was"
    assert main(["show", f"{folder}.rebll"]) == 0


def test_show(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", recipe, "--to", "drawn.png", "--images", "2"]) == 0
    with Image.open("drawn.png") as drawn:
        assert drawn.width > 100
    assert main(["show", recipe, "--stream", "valid"]) == 2
    assert "no valid stream" in capsys.readouterr().err


def test_the_summary_has_the_metrics_of_the_first_threshold_where_they_are_defined(
    recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # With one class known, no test image is a negative: there is no FPR yet.
    tiny = ["--benchmark.scenario", "B1-C1", "--method.name", "fine-tuning"]
    size = ["--benchmark.train_size", "200", "--benchmark.test_size", "200"]
    assert main(["run", recipe, *tiny, *size, "--evaluation.thresholds", "[0.6]"]) == 0
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ["experience", "classes", "mAP", "CF1@0.6", "OF1@0.6", "FPR@0.6"]
    assert first.split()[-1] == "-"
    assert "<svg" in Path("runs/scenes_B1-C1_fine-tuning_seed0/report.html").read_text()


def test_vectors_of_nothing_are_refused_and_block_no_other_command(
    recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", recipe, "--folder", "here"]
    assert main([*command, "--model.backbone", "vector"]) == 2
    assert "images of shape 3 x 16 x 16; give benchmark.features" in capsys.readouterr().err
    assert main(command) == 0


def test_joint_builds_its_benchmark_once(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = MultiLabelScenes.__init__

    def counted(self: MultiLabelScenes, *arguments: Any, **options: Any) -> None:
        built.append(arguments)
        build(self, *arguments, **options)

    monkeypatch.setattr(MultiLabelScenes, "__init__", counted)
    assert main(["run", recipe, "--method.name", "joint", "--folder", "here"]) == 0
    assert len(built) == 1
    lines = Path("here/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["classes_seen"] for line in lines] == [20]
    assert main(["run", recipe, "--method.name", "joint", "--benchmark.scenario", "B5-C7"]) == 2
