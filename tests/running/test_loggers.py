"""Weights & Biases: what a run tells it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rebll_avalanche.benchmarks import MultiLabelBenchmark
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.running.run import run_experiment


def test_a_run_logs_its_numbers(
    tmp_path: Path,
    vectors: MultiLabelBenchmark,
    settings: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[dict[str, Any]] = []
    logged: dict[str, list[tuple[int, Any]]] = {}

    def log(values: dict[str, Any], step: int) -> None:
        for name, value in values.items():
            logged.setdefault(name, []).append((step, value))

    recording = SimpleNamespace(__version__="0", init=lambda **how: begun.append(how), log=log)
    monkeypatch.setitem(sys.modules, "wandb", recording)  # type: ignore[arg-type]
    config = Config.from_dict(settings().to_dict() | {"loggers": ["wandb"]})
    records = run_experiment(config, tmp_path, benchmark=vectors)

    (how,) = begun
    assert how["dir"] == tmp_path
    assert how["id"] == (tmp_path / "wandb-id.txt").read_text(), "a stopped run goes on in its own"
    assert how["config"]["method"]["name"] == "rebll"
    assert not how["save_code"]
    (name,) = (name for name in logged if name.startswith("mAP_Stream/eval_phase"))
    assert [value for _, value in logged[name]] == [line["metrics"]["mAP"] for line in records]
    steps = [step for step, _ in logged[name]]
    assert steps == sorted(set(steps))


@pytest.mark.filterwarnings("ignore")
def test_wandb_still_takes_what_it_is_told() -> None:
    import wandb

    told = {"project", "name", "sync_tensorboard", "dir", "save_code", "config", "id", "resume"}
    assert told <= set(inspect.signature(wandb.init).parameters)
