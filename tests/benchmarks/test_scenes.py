"""The embedded scenes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rebll_avalanche.benchmarks import MultiLabelScenes
from rebll_avalanche.benchmarks.drawing import FREQUENCIES, deal_labels, draw_scenes
from rebll_avalanche.benchmarks.shapes import CLASSES, CLUTTER


def test_class_frequencies_are_those_of_voc():
    labels = deal_labels(2000, np.random.default_rng(0))
    shares = labels.mean(axis=0)
    assert np.abs(shares - FREQUENCIES).max() < 0.0005
    assert round(shares.max(), 2) == 0.40
    assert round(shares.min(), 2) == 0.02
    assert round(labels.sum() / len(labels), 2) == 1.46
    assert labels.any(axis=1).all()


def test_the_same_seed_draws_the_same_scenes():
    first = draw_scenes(20, 24, 3)
    draw_scenes.cache_clear()
    again, other, split = draw_scenes(20, 24, 3), draw_scenes(20, 24, 4), draw_scenes(20, 24, 3, 1)
    assert np.array_equal(first.images, again.images)
    assert np.array_equal(first.objects, again.objects)
    assert not np.array_equal(first.images, other.images)
    assert not np.array_equal(first.images, split.images)
    assert draw_scenes(20, 24, 3) is again, "drawn once per process"


def test_every_label_is_an_object_in_the_picture():
    scenes = draw_scenes(200, 24, 0)
    shown = np.zeros_like(scenes.labels)
    shown[scenes.objects[:, 0], scenes.objects[:, 1]] = 1
    assert np.array_equal(shown, scenes.labels)
    left, top, right, bottom = scenes.objects[:, 2:].T
    assert ((left < right) & (top < bottom)).all()
    assert scenes.objects[:, 2:].min() >= 0
    assert scenes.objects[:, 2:].max() <= 24
    assert len(scenes.objects) > scenes.labels.sum(), "some classes stand twice"


def test_objects_are_painted_where_their_boxes_are():
    scenes = draw_scenes(100, 32, 0)
    brightness = scenes.images.max(axis=3).astype(float)
    inside, outside = [], []
    for index, picture in enumerate(brightness):
        covered = np.zeros((32, 32), dtype=bool)
        for _, _, left, top, right, bottom in scenes.objects[scenes.objects[:, 0] == index]:
            covered[top:bottom, left:right] = True
        inside.append(picture[covered].mean())
        outside.append(picture[~covered].mean())
    assert np.mean(inside) > np.mean(outside) + 20


def test_shapes_differ_and_fit_into_their_square():
    x, y = np.meshgrid(np.linspace(-1.3, 1.3, 80), np.linspace(-1.3, 1.3, 80))
    masks = {shape.__name__: shape(x, y) for shape in (*CLASSES.values(), *CLUTTER)}
    border = np.maximum(np.abs(x), np.abs(y)) > 1.001
    for name, mask in masks.items():
        assert not (mask & border).any(), name
        assert 0.05 < mask[~border].mean() < 0.8, name
    names = list(masks)
    for first, name in enumerate(names):
        for other in names[first + 1 :]:
            union = (masks[name] | masks[other]).sum()
            assert (masks[name] & masks[other]).sum() / union < 0.85, (name, other)


def test_twenty_classes_have_words_in_alphabetical_order():
    assert len(CLASSES) == 20
    assert list(CLASSES) == sorted(CLASSES)


def test_the_benchmark_is_like_any_other(scenes):
    assert [len(e.classes_in_this_experience) for e in scenes.train_stream] == [5, 3, 3, 3, 3, 3]
    assert scenes.class_names == list(CLASSES)
    x, y = scenes.train_stream[0].dataset[0]
    assert (tuple(x.shape), x.dtype) == ((3, 24, 24), torch.float32)
    assert y[:5].sum() >= 1
    assert y[5:].isnan().all()
    assert len(scenes.test_stream[-1].dataset) == 80


def test_options_go_through():
    options = {"train_size": 120, "test_size": 80, "image_size": 16, "validation_size": 0.2}
    benchmark = MultiLabelScenes("B10-C5", mode="disjoint", class_order=3, **options)
    assert sum(len(e.dataset) for e in benchmark.train_stream) == 96
    assert len(benchmark.valid_stream) == 3
    assert sorted(benchmark.class_names) == list(CLASSES)
    assert benchmark.class_names != list(CLASSES)


def test_too_few_scenes_for_every_experience_are_refused():
    with pytest.raises(ValueError, match=r"experience \d+ of the t.* stream is empty"):
        MultiLabelScenes("B0-C1", train_size=20, test_size=20, image_size=8)
