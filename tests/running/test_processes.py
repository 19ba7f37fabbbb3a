"""Runs in processes of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.study import Planned
from rebll_avalanche.running.processes import run_all


def scenes(name: str, **changes: object) -> Planned:
    benchmark = {"scenario": "B10-C10", "train_size": 40, "test_size": 40, "image_size": 16}
    training = {"epochs": 1, "batch_size": 32, "device": "cpu"}
    method = {"name": "fine-tuning"}
    parts = {"benchmark": benchmark, "training": training, "method": method}
    return Planned(name, Config.from_dict(parts | changes))


def test_progress_errors_and_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    at: dict[str, list[str]] = {"whole": [], "refused": [], "killed": []}
    planned = [
        scenes("whole"),
        scenes("refused", method={"name": "l2p"}),
        scenes("killed", training={"epochs": 10_000, "device": "cpu"}),
    ]

    def watch(entry: Planned, text: str) -> None:
        at[entry.name].append(text)
        if entry.name == "killed" and text:
            owner = int((tmp_path / "killed" / ".lock").read_text().split()[0])
            os.kill(owner, signal.SIGKILL)

    ended = {end.planned.name: end for end in run_all(planned, tmp_path, on_progress=watch)}
    assert list(ended) == ["whole", "refused", "killed"]
    assert (ended["whole"].kind, ended["whole"].error) == ("", "")
    assert at["whole"][:2] == ["experience 1/2 epoch 1/1", "experience 2/2 epoch 1/1"]
    assert ended["refused"].kind == "ValueError"
    assert "vision transformer" in ended["refused"].error
    assert (ended["killed"].kind, ended["killed"].error) == (
        "exit",
        f"its process ended with code {-signal.SIGKILL}",
    )
