"""Feature maps caught inside a network."""

from __future__ import annotations

import pytest
import torch

from rebll_avalanche.models import build_model
from rebll_avalanche.models.stages import FeatureTap, stage_modules


@pytest.mark.parametrize(
    ("name", "side", "shapes"),
    [
        ("small_cnn", 16, [(48, 4, 4), (96, 2, 2)]),
        ("tf_efficientnet_lite0", 64, [(24, 16, 16), (40, 8, 8), (112, 4, 4), (320, 2, 2)]),
    ],
)
def test_the_last_stages_are_kept_from_fine_to_coarse(name, side, shapes):
    model = build_model(name).eval()
    tap = FeatureTap()
    tap.watch(model)
    with torch.no_grad():
        feature_map = model.features(torch.rand(2, 3, side, side))
    maps, embedding = tap.features()
    assert [tuple(m.shape[1:]) for m in maps] == shapes
    assert torch.allclose(embedding, feature_map.mean(dim=(2, 3)))


def test_vectors_have_an_embedding_only():
    model = build_model("vector", in_features=5)
    vectors = torch.rand(3, 5)
    tap = FeatureTap()
    tap.watch(model)
    model.features(vectors)
    maps, embedding = tap.features()
    assert maps == []
    assert torch.equal(embedding, vectors)
    assert stage_modules(torch.nn.Identity()) == []


def test_a_closed_tap_leaves_no_hook():
    model = build_model("small_cnn").eval()
    tap = FeatureTap()
    tap.watch(model)
    tap.watch(model)
    model.features(torch.rand(1, 3, 8, 8))
    assert len(tap.features()[0]) == 2
    assert not any(module._forward_hooks for module in model.modules())
