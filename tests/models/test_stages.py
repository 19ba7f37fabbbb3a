"""Feature maps caught inside a network."""

from __future__ import annotations

import torch

from rebll_avalanche.models import build_model
from rebll_avalanche.models.stages import FeatureTap, stage_modules, tapped


def test_the_small_network_has_maps_inside():
    model = build_model("small_cnn").eval()
    with tapped(model) as tap:
        feature_map = model.features(torch.rand(2, 3, 16, 16))
    assert [tuple(m.shape[1:]) for m in tap.maps] == [(48, 4, 4), (96, 2, 2)]
    assert torch.allclose(tap.embedding, feature_map.mean(dim=(2, 3)))


def test_timm_networks_give_their_last_four_stages():
    model = build_model("tf_efficientnet_lite0").eval()
    with torch.no_grad(), tapped(model) as tap:
        model.features(torch.rand(1, 3, 64, 64))
    assert [m.shape[1] for m in tap.maps] == [24, 40, 112, 320]
    assert [m.shape[2] for m in tap.maps] == [16, 8, 4, 2]


def test_vectors_have_an_embedding_only():
    model = build_model("vector", in_features=5)
    vectors = torch.rand(3, 5)
    with tapped(model) as tap:
        model.features(vectors)
    assert tap.maps == []
    assert torch.equal(tap.embedding, vectors)
    assert stage_modules(torch.nn.Identity()) == []


def test_a_closed_tap_hears_nothing():
    model = build_model("small_cnn").eval()
    tap = FeatureTap()
    tap.open(model)
    tap.open(model)
    model.features(torch.rand(1, 3, 8, 8))
    assert len(tap.maps) == 2
    tap.close()
    model.features(torch.rand(1, 3, 8, 8))
    assert len(tap.maps) == 2
    assert not any(module._forward_hooks for module in model.modules())
