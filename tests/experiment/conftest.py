"""A stream of vectors and a run over it, small enough to be repeated many times."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rebll_avalanche.benchmarks import MultiLabelBenchmark, multilabel_benchmark
from rebll_avalanche.experiment.checkpoint import CheckpointFolder
from rebll_avalanche.experiment.config import Config
from rebll_avalanche.experiment.state import pack


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread for small networks; and a killed process, unlike a fallen computer, loses no writes."""
    torch.set_num_threads(1)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="session")
def vectors() -> MultiLabelBenchmark:
    """Six classes in three experiences, linearly separable up to noise."""
    generator = torch.Generator().manual_seed(0)
    rule = torch.randn(8, 6, generator=generator)
    x = torch.randn(160, 8, generator=generator)
    y = (x @ rule > 1).float()
    return multilabel_benchmark((x[:100], y[:100]), (x[100:], y[100:]), "B2-C2")


@pytest.fixture
def settings() -> Callable[..., Config]:
    """A configuration for ``vectors``; arguments go into its sections."""

    def make(
        method: str = "rebll", *, training: dict[str, Any] | None = None, **options: Any
    ) -> Config:
        return Config.from_dict(
            {
                "benchmark": {"name": "scenes", "scenario": "B2-C2"},
                "model": {"backbone": "vector"},
                "method": {"name": method, **options},
                "training": {"epochs": 2, "batch_size": 16, "lr": 0.05, "device": "cpu"}
                | (training or {}),
            }
        )

    return make


@pytest.fixture
def final_bits() -> Callable[[Path], dict[str, bytes]]:
    """Every bit of a finished run that does not depend on the clock on the wall."""

    def read(folder: Path) -> dict[str, bytes]:
        end = CheckpointFolder(folder / "checkpoint").newest().end
        end["strategy"]["plugins"].pop("Recorder-0")
        numbers = [(record["metrics"], record["loss_terms"]) for record in end["records"]]
        tensors: dict[str, torch.Tensor] = {}
        text = repr((pack(end["strategy"], tensors), numbers))
        bits = {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
        return {"text": text.encode()} | bits

    return read
