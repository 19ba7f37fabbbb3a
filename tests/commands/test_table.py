"""``rebll table`` from a command line to its files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rebll_avalanche.cli import main
from rebll_avalanche.experiment import run as run_module

SMALL = """
benchmark: {name: scenes, scenario: B10-C10, train_size: 60, test_size: 60, image_size: 16}
training: {epochs: 1, batch_size: 32, device: cpu}
"""


def test_runs_what_is_missing_and_skips_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.set_num_threads(1)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(SMALL)
    runs = tmp_path / "runs"
    command = ["table", str(recipe), "--folder", str(runs), "--methods", "fine-tuning", "joint"]
    assert main([*command, "--seeds", "0"]) == 0
    started = []
    learn = run_module.learn

    def counted(config, folder, *args, **options):  # type: ignore[no-untyped-def]
        started.append(folder.name)
        return learn(config, folder, *args, **options)

    monkeypatch.setattr(run_module, "learn", counted)
    assert main([*command, "--seeds", "0", "1", "--scenarios", "B10-C10", "B0-C10"]) == 0
    assert sorted(started) == [
        "scenes_B0-C10_fine-tuning_seed0",
        "scenes_B0-C10_fine-tuning_seed1",
        "scenes_B10-C10_fine-tuning_seed1",
        "scenes_B10-C10_joint_seed1",  # the ceiling knows no scenario: one run serves all
    ]
    shown = capsys.readouterr().out
    assert shown.count("Fine-Tuning") == 1 + 2
    assert {path.name for path in runs.glob("table.*")} == {"table.md", "table.csv", "table.tex"}


def test_an_unknown_method_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "--methods", "rebll", "lfw"]) == 2
    assert "no method is called 'lfw'; the nearest are lwf" in capsys.readouterr().err
