"""From a picture to a tensor."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from rebll_avalanche.benchmarks import evaluation_transform, training_transform
from rebll_avalanche.benchmarks.transforms import (
    Cutout,
    for_pictures,
    resize,
    to_unit_range,
)


@pytest.fixture
def picture():
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8))


def test_unit_range_is_the_picture_divided_by_255(picture):
    tensor = to_unit_range(picture)
    expected = np.asarray(picture).transpose(2, 0, 1) / np.float32(255)
    assert tensor.is_contiguous()
    assert np.array_equal(tensor.numpy(), expected)
    channels_first = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    assert torch.equal(to_unit_range(channels_first), tensor)
    assert channels_first.dtype == torch.uint8


def test_evaluation_is_a_square_and_nothing_random(picture):
    transform = evaluation_transform(16)
    assert transform(picture).shape == (3, 16, 16)
    assert torch.equal(transform(picture), transform(picture))
    assert torch.equal(transform(picture), to_unit_range(resize(picture, 16)))
    assert resize(resize(picture, 16), 16).size == (16, 16)


@pytest.mark.parametrize("size", [(1, 1), (3, 90), (40, 30), (500, 375)])
@pytest.mark.parametrize("side", [1, 16, 96])
def test_pixels_are_those_of_pillow_within_one_grey_level(size, side):
    pixels = np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)
    found = np.asarray(resize(Image.fromarray(pixels), side)).astype(int)
    expected = np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BILINEAR))
    assert abs(found - expected).max() <= 1


def test_training_is_random_but_repeats_with_torch_seed(picture):
    transform = training_transform(16)
    torch.manual_seed(3)
    first, second = transform(picture), transform(picture)
    torch.manual_seed(3)
    assert torch.equal(transform(picture), first)
    assert not torch.equal(first, second)
    assert first.shape == (3, 16, 16)
    assert first.min() >= 0
    assert first.max() <= 1


def test_augmentation_can_be_taken_apart(picture):
    plain = training_transform(16, cutout=0, randaugment=False)
    assert torch.equal(plain(picture), evaluation_transform(16)(picture))


def test_normalisation_is_applied_where_the_weights_want_one(picture):
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    plain = evaluation_transform(16)(picture)
    normalised = evaluation_transform(16, normalize=(mean, std))(picture)
    expected = (plain - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    assert torch.allclose(normalised, expected)


def test_cutout_covers_one_rectangle_of_one_colour():
    white = Image.new("RGB", (40, 20), (255, 255, 255))
    torch.manual_seed(0)
    sizes = set()
    for _ in range(60):
        covered = np.asarray(Cutout(0.5)(white))
        changed = (covered != 255).any(axis=2)
        lines, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        inside = covered[lines[0] : lines[-1] + 1, columns[0] : columns[-1] + 1].reshape(-1, 3)
        assert len(np.unique(inside, axis=0)) == 1
        assert len(inside) == changed.sum()
        sizes.add((len(columns), len(lines)))
    assert max(width for width, _ in sizes) in (20, 21)
    assert max(height for _, height in sizes) in (10, 11)
    assert min(width for width, _ in sizes) < 20, "near the border a part falls outside"
    assert np.asarray(white).min() == 255, "the picture itself stays as it is"
    with pytest.raises(ValueError, match=r"must be in \(0, 1\], got 1\.5"):
        Cutout(1.5)


def test_transforms_survive_the_way_to_a_worker(picture):
    again = pickle.loads(pickle.dumps(training_transform(16)))
    assert again(picture).shape == (3, 16, 16)


@pytest.mark.parametrize("side", [16, 40])
def test_arrays_and_pictures_become_the_same_tensor(picture, side):
    square = resize(picture, 40)
    own = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.ToImage(), v2.ToDtype(torch.float32)])
    for transform in (evaluation_transform(side), training_transform(side), to_unit_range, own):
        results = []
        for given in (square, np.asarray(square)):
            torch.manual_seed(0)
            results.append(for_pictures(transform)(given))
        assert torch.equal(*results)
        assert transform is own or results[1].is_contiguous()
