"""Growth keeps what was learned, and evaluation never grows."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from avalanche.models.dynamic_modules import avalanche_model_adaptation

from rebll_avalanche.models import GrowingLinear, build_model
from rebll_avalanche.models.expanded import STEEPEST, signed_power


def experience(seen: int, new: int):
    return SimpleNamespace(
        classes_in_this_experience=set(range(seen - new, seen)),
        previous_classes=set(range(seen - new)),
        classes_seen_so_far=set(range(seen)),
    )


def test_growth_keeps_old_rows_bit_for_bit():
    head = GrowingLinear(6)
    features = torch.randn(4, 6, 3, 3)
    assert head.num_classes == 0
    assert head(features).shape == (4, 0)
    head.adaptation(experience(3, 3))
    before, weight = head(features), head.weight.clone()
    head.adaptation(experience(5, 2))
    assert head.num_classes == 5
    assert torch.equal(head.weight[:3], weight)
    torch.testing.assert_close(head(features)[:, :3], before)
    assert head.weight.requires_grad
    assert head.weight.is_leaf


def test_evaluation_never_grows():
    head = GrowingLinear(6).eval()
    head.adaptation(experience(3, 3))
    assert head.num_classes == 0


def test_a_seen_experience_changes_nothing():
    head = GrowingLinear(2)
    head.adaptation(experience(4, 4))
    weight = head.weight
    head.adaptation(experience(3, 1))
    assert head.weight is weight


def test_growth_without_a_class_timeline():
    head = GrowingLinear(2)
    head.adaptation(SimpleNamespace(classes_in_this_experience={2, 3}))
    assert head.num_classes == 4


def test_state_of_any_width_loads():
    saved = GrowingLinear(3)
    saved.grow(7)
    for width in (0, 2, 7, 9):
        other = GrowingLinear(3)
        other.grow(width)
        other.load_state_dict(saved.state_dict())
        assert torch.equal(other.weight, saved.weight)
        assert torch.equal(other.bias, saved.bias)


def test_deep_copy_is_independent():
    head = GrowingLinear(3)
    head.grow(2)
    twin = copy.deepcopy(head)
    head.grow(4)
    assert twin.num_classes == 2


def test_maps_average_to_the_logits():
    head = GrowingLinear(5)
    head.grow(3)
    features = torch.randn(2, 5, 4, 4)
    maps = head.class_activation_maps(features)
    torch.testing.assert_close(maps.mean(dim=(2, 3)) + head.bias, head(features))


@pytest.mark.parametrize("mode", ["train", "frozen_after_base", "frozen"])
def test_batch_norm_mode(mode):
    model = build_model("small_cnn", bn_mode=mode)
    images = torch.rand(4, 3, 16, 16)
    statistics = model.backbone.blocks[1].running_mean
    for seen in (2, 4):
        model.train()
        avalanche_model_adaptation(model, experience(seen, 2))
        before = statistics.clone()
        model(images)
        moves = not torch.equal(before, statistics)
        assert moves == (mode == "train" or (mode == "frozen_after_base" and seen == 2))
    again = build_model("small_cnn", bn_mode=mode)
    again.load_state_dict(model.state_dict())
    assert again.train().backbone.blocks[1].training == (mode == "train")


def test_wrong_batch_norm_mode():
    with pytest.raises(ValueError, match="never"):
        build_model("small_cnn", bn_mode="never")


def test_a_signed_power_is_exact_and_its_slope_stays_finite():
    values = torch.tensor([-4.0, -1e-4, 0.0, 1e-4, 0.25, 9.0], requires_grad=True)
    raised = signed_power(values, 0.5)
    plain = values.detach()
    assert torch.equal(raised.detach(), plain.sign() * plain.abs().pow(0.5))
    raised.sum().backward()
    steepest = 0.5 * STEEPEST**-0.5
    expected = torch.tensor([0.25, steepest, steepest, steepest, 1.0, 1 / 6])
    torch.testing.assert_close(values.grad, expected)
