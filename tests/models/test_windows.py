"""Whole pictures and windows."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.models.heads import GrowingLinear
from rebll_avalanche.models.windows import PER_SIDE, SHARE, WEIGHT, window_means


@pytest.mark.parametrize(("height", "width"), [(12, 16), (7, 7), (3, 2), (1, 1)])
def test_windows_cover_the_map(height: int, width: int) -> None:
    feature_map = torch.rand(2, 5, height, width)
    means = window_means(feature_map)
    assert means.shape == (2, PER_SIDE**2, 5)
    rows, columns = max(round(height * SHARE), 1), max(round(width * SHARE), 1)
    torch.testing.assert_close(means[:, 0], feature_map[:, :, :rows, :columns].mean(dim=(2, 3)))
    torch.testing.assert_close(means[:, -1], feature_map[:, :, -rows:, -columns:].mean(dim=(2, 3)))
    # A place that shines is seen by some window, whichever place it is.
    for place in range(height * width):
        shining = torch.zeros(1, 1, height * width)
        shining[..., place] = 1
        assert window_means(shining.unflatten(2, (height, width))).max() > 0


@torch.no_grad()
def test_a_model_learns_from_the_whole_and_is_tested_on_windows_too() -> None:
    torch.manual_seed(0)
    head = GrowingLinear(6)
    head.grow(3)
    model = MultiLabelModel(nn.Identity(), head, windows=True)
    inputs = torch.rand(4, 1 + PER_SIDE**2, 6)
    torch.testing.assert_close(model.train()(inputs), head(inputs[:, 0]))
    expected = torch.empty(4, 3)
    for image in range(4):
        for column in range(3):
            scores = [float(head(part[None])[0, column]) for part in inputs[image]]
            expected[image, column] = (scores[0] + WEIGHT * max(scores[1:])) / (1 + WEIGHT)
    torch.testing.assert_close(model.eval()(inputs), expected)
    torch.testing.assert_close(model.features(inputs), inputs[:, 0])


def test_other_inputs_of_three_dimensions_are_not_taken_for_windows() -> None:
    head = GrowingLinear(6)
    head.grow(3)
    model = MultiLabelModel(nn.Flatten(), head).eval()
    inputs = torch.rand(4, 2, 3)  # such as a sound: frequencies over time
    torch.testing.assert_close(model(inputs), head(inputs.flatten(1)))
