"""Drawn pictures of four classes, and learners that know some of them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from rebll_avalanche import Learner
from rebll_avalanche.benchmarks.features import FrozenFeatures

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 60), "blue": (40, 60, 230), "black": (0, 0, 0)}
SIZE = 64


def drawn(names: Sequence[str], seed: int) -> Image.Image:
    """A noisy picture with one stripe for each name, somewhere."""
    random = np.random.default_rng(seed)
    picture = Image.fromarray(random.integers(150, 256, (SIZE, SIZE, 3), np.uint8).astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    for name in names:
        x, y = random.integers(0, SIZE - 24, 2).tolist()
        pen.rectangle((x, y, x + 22, y + 22), fill=COLOURS[name])
    return picture


@pytest.fixture(scope="session")
def draw() -> Callable[[Sequence[str], int], Image.Image]:
    """:func:`drawn`."""
    return drawn


@pytest.fixture
def month(tmp_path) -> Callable[..., Path]:
    """A function that writes a folder of pictures of some classes and a table of these."""

    def make(folder: str, classes: Sequence[str], count: int = 24, seed: int = 0) -> Path:
        place = tmp_path / folder
        place.mkdir()
        random = np.random.default_rng([seed, count])
        with (place / "labels.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["file", "labels"])
            for number in range(count):
                shown = [name for name in classes if random.random() < 0.45]
                if number < len(classes):
                    shown = [classes[number]]
                drawn(shown, 1000 * seed + number).save(place / f"{folder}{number}.png")
                writer.writerow([f"{folder}{number}.png", ";".join(shown)])
        return place / "labels.csv"

    return make


TINY = {"backbone": "test_resnet", "pretrained": None, "image_size": SIZE}


@pytest.fixture(scope="session")
def backbone() -> FrozenFeatures:
    """One for all learners: random weights, which tell colours apart."""
    torch.manual_seed(0)
    return Learner(**TINY).features


@pytest.fixture
def small(backbone) -> Callable[..., Learner]:
    """A function that makes a learner that takes no time."""

    def make(**options) -> Learner:
        learner = Learner(**TINY, **options)
        learner._features, learner._backbone_hash = backbone, backbone.weights_hash()
        return learner

    return make
