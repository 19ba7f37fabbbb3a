"""Each example runs, the demo in miniature."""

from __future__ import annotations

import ast
import contextlib
import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from rebll_avalanche import MultiLabelScenes

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(monkeypatch, name: str, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with contextlib.ExitStack() as stack:
        if arguments:  # these end with sys.exit(main())
            stopped = stack.enter_context(pytest.raises(SystemExit))
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert not arguments or stopped.value.code == 0


def metrics(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["metrics"] for line in lines]


TINY = ("--epochs", "1", "--train-size", "200", "--test-size", "120")


def test_drop_in(monkeypatch, capsys):
    run(monkeypatch, "drop_in.py")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["5", "8", "11", "14", "17", "20"]


def test_own_images(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for seed, month in enumerate(("march", "april")):
        MultiLabelScenes(train_size=30, test_size=10, seed=seed).write_csv(month)
        shutil.move(f"{month}/labels.csv", f"{month}.csv")
        shutil.move(f"{month}/images", f"photos/{month}")
    shutil.copy("photos/april/test_000003.png", "street.jpg")
    run(monkeypatch, "own_images.py")
    printed = capsys.readouterr().out.splitlines()
    assert "lesson 0: 30 pictures from march.csv" in printed[0]
    one, everything = map(ast.literal_eval, printed[-2:])
    assert everything["photos/april/test_000003.png"] == one
    assert len(everything) == 40


def test_voc_b5c3(monkeypatch, capsys, tmp_path):
    command = ("--methods", "fine-tuning", "rebll", "joint", *TINY, "--folder", str(tmp_path))
    run(monkeypatch, "voc_b5c3.py", *command, "--jobs", "2")
    printed = capsys.readouterr().out
    assert all(label in printed for label in ("Fine-Tuning", "RebLL (AKD + OR)", "Joint (ceiling)"))
    assert "<svg" in (tmp_path / "voc_b5c3.html").read_text()
    parameters = yaml.safe_load((tmp_path / "scenes_B5-C3_rebll_seed0/config.yaml").read_text())
    assert parameters["method"] == {
        "name": "rebll",
        "mem_size": 40,
        "alpha": 0.6,
        "lambda_akd": 0.3,
        "relabel_threshold": 0.5,
    }

    folder = tmp_path / "scenes_B5-C3_fine-tuning_seed0"
    side_by_side = metrics(folder)
    shutil.rmtree(folder)
    run(monkeypatch, "voc_b5c3.py", *command, "--jobs", "1")  # learns only what is missing
    assert metrics(folder) == side_by_side, "one thread each: the same bits with any number of jobs"


def test_voc_b5c3_names_methods_that_exist(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["voc_b5c3.py", "--methods", "reball"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(EXAMPLES / "voc_b5c3.py"), run_name="__main__")
    assert stopped.value.code == 2
    assert "no method is called 'reball'; there are rebll" in capsys.readouterr().err
