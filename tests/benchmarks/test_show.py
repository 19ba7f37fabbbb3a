"""The picture of what experiences hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from rebll_avalanche.benchmarks import evaluation_transform, multilabel_benchmark
from rebll_avalanche.benchmarks.show import HIDDEN, LABELLED, draw_experiences


@pytest.fixture
def figure(monkeypatch):
    """The figure instead of its file."""
    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: saved.append(self))
    return saved


def captions(axis, colour):
    return [text.get_text() for text in axis.texts if text.get_color() == colour]


def test_each_image_has_its_labelled_and_its_hidden_classes(figure):
    labels = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    pictures = np.zeros((3, 6, 6, 3), dtype=np.uint8)
    split = (pictures, labels)
    benchmark = multilabel_benchmark(split, split, "B1-C1", class_names=["ant", "bee", "cow"])
    draw_experiences(benchmark, "unused.png", images_per_experience=2)
    axes = np.array(figure[0].axes).reshape(3, 3)
    assert captions(axes[0, 0], LABELLED) == ["+ ant"]
    assert captions(axes[2, 0], LABELLED) == ["+ cow"]
    assert "experience 1\n2 images" in axes[1, 0].texts[0].get_text()
    assert captions(axes[0, 1], LABELLED) == ["ant"]
    assert captions(axes[0, 1], HIDDEN) == []
    assert captions(axes[0, 2], LABELLED) == ["ant"]
    assert captions(axes[0, 2], HIDDEN) == ["bee"]
    assert captions(axes[2, 1], HIDDEN) == ["bee"]
    assert not axes[2, 2].images, "the last experience has one image only"


def test_a_png_is_written(scenes, tmp_path):
    path = draw_experiences(scenes, tmp_path / "scenes.png", images_per_experience=3)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 400
        assert len(set(picture.convert("L").resize((40, 40)).tobytes())) > 20


def test_normalised_pictures_and_the_test_stream_can_be_drawn(figure):
    pictures = np.random.default_rng(0).integers(0, 256, (4, 6, 6, 3), dtype=np.uint8)
    split = (pictures, np.eye(4))
    transform = evaluation_transform(6, normalize=((0.5,) * 3, (0.2,) * 3))
    benchmark = multilabel_benchmark(split, split, "B2-C2", eval_transform=transform)
    draw_experiences(benchmark, "unused.png", stream="test")
    shown = [image.get_array() for axis in figure[0].axes for image in axis.images]
    assert len(shown) == 6
    assert all(picture.min() >= 0 and picture.max() <= 1 for picture in shown)


def test_vectors_are_no_pictures():
    split = (torch.zeros(3, 5), np.eye(3))
    benchmark = multilabel_benchmark(split, split, "B1-C1")
    with pytest.raises(ValueError, match=r"only images .* got \(5,\)"):
        draw_experiences(benchmark, "unused.png")
