"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
    import torch

    from rebll_avalanche.benchmarks import multilabel_benchmark

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
    from rebll_avalanche.experiment.config import BenchmarkConfig, Config, TrainingConfig
    from rebll_avalanche.experiment.run import run_experiment

    folder = tmp_path_factory.mktemp("runs") / "scenes"
    config = Config(
        benchmark=BenchmarkConfig(scenario="B10-C10", train_size=80, test_size=80),
        method={"name": "rebll", "mem_size": 8},
        training=TrainingConfig(epochs=1, batch_size=16),
    )
    run_experiment(config, folder)
    return folder
