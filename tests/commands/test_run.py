"""``rebll run``, ``rebll show`` and ``rebll extend`` from a command line to their files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from PIL import Image

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
            csv.writer(lines).writerow([f"{index}.png", "something new"])
    assert main(["extend", str(folder), "new/labels.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[3].split()[:2] == ["2", "21"]
    assert "something new" in (folder / "config.yaml").read_text()


def test_show(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", recipe, "--to", "drawn.png", "--images", "2"]) == 0
    with Image.open("drawn.png") as drawn:
        assert drawn.width > 100
    assert main(["show", recipe, "--stream", "valid"]) == 2
    assert "no valid stream" in capsys.readouterr().err
