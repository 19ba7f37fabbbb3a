"""Fixtures that several test files share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rebll_avalanche.benchmarks import MultiLabelBenchmark, multilabel_benchmark
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.checkpointing.state import pack
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.sections import BenchmarkConfig, TrainingConfig
from rebll_avalanche.running.run import run_experiment

# Real images for development lie beside the repository; where they do not, those tests have nothing to read.
SHARED_DATA = Path(os.environ.get("REBLL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def _shared(name: str) -> Path:
    path = SHARED_DATA / name
    if not path.is_dir():
        pytest.skip(f"no real images at {path}; set REBLL_TEST_DATA to a folder that has {name}")
    return path


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory):
    """Keeps what tests remember about files away from the person who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache-home")))
        yield


@pytest.fixture(scope="session")
def voc_root() -> Path:
    """A folder that holds ``VOCdevkit/VOC2007`` with real images."""
    return _shared("voc2007_small")


@pytest.fixture(scope="session")
def coco_root() -> Path:
    """A folder in MS-COCO 2014 layout with real images."""
    return _shared("coco2014_small")


@pytest.fixture
def vector_benchmark():
    """A function that makes streams of small random vectors with random labels."""

    def make(scenario="B2-C1", classes=4, samples=24, features=6, dtype=torch.float32, **options):
        generator = torch.Generator().manual_seed(7)
        splits = []
        for _ in range(2):
            inputs = torch.randn(samples, features, generator=generator, dtype=dtype)
            labels = (torch.rand(samples, classes, generator=generator) < 0.4).float()
            labels[torch.arange(samples), torch.arange(samples) % classes] = 1.0
            splits.append((inputs, labels))
        return multilabel_benchmark(splits[0], splits[1], scenario, **options)

    return make


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory):
    """The folder of a finished run: two experiences of drawn scenes, seconds of training."""
    folder = tmp_path_factory.mktemp("runs") / "scenes"
    config = Config(
        benchmark=BenchmarkConfig(scenario="B10-C10", train_size=80, test_size=80),
        method={"name": "rebll", "mem_size": 8},
        training=TrainingConfig(epochs=1, batch_size=16),
    )
    run_experiment(config, folder)
    return folder


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
