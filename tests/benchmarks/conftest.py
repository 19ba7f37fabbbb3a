"""Fixtures for data on disk."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from rebll_avalanche.benchmarks import MultiLabelScenes


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    """An empty cache folder for every test."""
    home = tmp_path / "cache-home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def scenes():
    """A small embedded benchmark."""
    return MultiLabelScenes("B5-C3", train_size=120, test_size=80, image_size=24)


@pytest.fixture
def picture_files(tmp_path):
    """A function that writes random pictures and returns their paths."""

    def write(count, size=(20, 30), suffix=".jpg"):
        rng = np.random.default_rng(0)
        folder = tmp_path / "pictures"
        folder.mkdir(exist_ok=True)
        paths = []
        for index in range(count):
            coarse = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
            path = folder / f"{index:03d}{suffix}"
            Image.fromarray(coarse).resize(size).save(path)
            paths.append(path)
        return paths

    return write
