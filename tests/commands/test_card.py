"""Cards of runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from rebll_avalanche import Learner, MultiLabelScenes, cli


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "birds"
    folder.mkdir()
    config = {
        "benchmark": {"name": "csv", "scenario": "B2-C1", "mode": "once"},
        "model": {"backbone": "small_cnn", "pretrained": None},
        "method": {"name": "lwf"},
        "evaluation": {"stream": "test", "thresholds": [0.8, 0.5]},
        "versions": {"torch": "2.9.9"},
        "environment": {"preparation_seconds": 30.0},
        "seed": 3,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    line = {
        "experience": 1,
        "classes_seen": 3,
        "metrics": {"mAP": 0.4321, "AvgmAP": 0.5, "CF1@0.8": 0.25, "FPR@0.5": 0.0625},
        "per_class_ap": {"owl": 0.9, "<script>|wren": 0.125, "crow": 0.5},
        "seconds": 90.0,
    }
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    truth = np.array([[1, 0, 0], [1, 1, np.nan], [0, 0, 1]], dtype=np.float32)
    names = np.array(["owl", "<script>|wren", "crow"])
    np.savez(folder / "scores.npz", scores=truth, truth=truth, class_names=names)
    return folder


def test_what_is_known_is_filled_in(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["card", str(run_folder)]) == 0
    model, data = (run_folder / name for name in ("MODEL_CARD.md", "DATA_CARD.md"))
    assert capsys.readouterr().out.split() == [str(model), str(data)]
    text = model.read_text()
    assert "`lwf`), seed 3" in text
    assert "| 43.2 | 50.0 | 25.0 | - | - | - | - | 6.2 |" in text
    assert text.index("wren") < text.index("| crow | 1 | 50.0 |") < text.index("| owl | 2 | 90.0 |")
    assert "in 1.5 minutes; reading images and computing features took 0.5 more" in text
    assert "torch 2.9.9" in text
    assert "scenario B2-C1, 3 classes" in data.read_text()
    assert "Stream: once." in data.read_text()


def test_a_name_cannot_become_markup(run_folder: Path) -> None:
    cli.main(["card", str(run_folder)])
    text = (run_folder / "MODEL_CARD.md").read_text()
    assert r"| &lt;script&gt;\|wren | 1 | 12.5 |" in text


def test_answers_are_not_overwritten(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["card", str(run_folder)])
    (run_folder / "DATA_CARD.md").write_text("answers")
    assert cli.main(["card", str(run_folder)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (run_folder / "DATA_CARD.md").read_text() == "answers"
    assert cli.main(["card", str(run_folder), "-o", str(tmp_path / "elsewhere")]) == 0
    assert (tmp_path / "elsewhere" / "DATA_CARD.md").is_file()


def test_a_learner_has_a_card_with_its_lessons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenes = MultiLabelScenes(train_size=60, test_size=20, image_size=32)
    scenes.write_csv(tmp_path / "march")
    learner = Learner(backbone="small_cnn", pretrained=None, image_size=32, thumbnails=0)
    learner.learn(tmp_path / "march" / "labels.csv", images=tmp_path / "march" / "images")
    learner.save(tmp_path / "city.rebll")
    assert cli.main(["card", str(tmp_path / "city.rebll")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "MODEL_CARD.md")
    text = (tmp_path / "MODEL_CARD.md").read_text()
    assert "Learner.load('city.rebll')" in text
    assert "60 pictures" in text
    assert all(f"| {name} | " in text for name in learner.class_names)
    assert cli.main(["card", str(tmp_path / "city.rebll")]) == 2


def test_a_folder_without_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["card", str(tmp_path)]) == 2
    assert "one run is needed" in capsys.readouterr().err
