"""MULTI-LANE's network against tdemin16/multi-lane, on the release's own weights."""

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.models.lanes import LanedViT, LaneHead


@pytest.fixture
def numbers(peer):
    return peer("multilane")


def as_released(numbers) -> MultiLabelModel:
    """Our network with the release's weights, of as many lanes."""
    network = VisionTransformer(
        img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, num_classes=0
    )
    network.load_state_dict({name: numbers[name] for name in network.state_dict()})
    backbone = LanedViT(network, num_selectors=6, num_prompts=5, prompted_blocks=1)
    model = MultiLabelModel(backbone, LaneHead(32))
    for total in numbers["lane_sizes"].cumsum(0).tolist():
        backbone.grow(total)
        model.head.grow(total)
    # [key or value, lane, prompt, head, dim / head] there, [lane, block, key or value, prompt, dim] here.
    prompts = numbers["blocks.0.attn.prompts"].flatten(3).transpose(0, 1).unsqueeze(1)
    with torch.no_grad():
        for name, values in (("selectors", numbers["selectors"]), ("prompts", prompts)):
            getattr(backbone, f"old_{name}").copy_(values[:-1])
            getattr(backbone, name).copy_(values[-1:])
        model.head.weight.copy_(numbers["head.weight"])
        model.head.bias.copy_(numbers["head.bias"])
    return model


@torch.no_grad()
def test_prediction(numbers, near):
    model = as_released(numbers).eval()
    features = model.features(numbers["images"])[:, :, 0].transpose(1, 2)
    first_class_of_each_lane = [0, 4, 6]
    lanes = features[:, first_class_of_each_lane]
    near(lanes, numbers["lane_features"], 1e-6)
    near(model(numbers["images"]), numbers["logits"], 1e-6)
    patches = torch.nn.functional.normalize(numbers["frozen_tokens"][:, 1:], dim=2)
    near(features[:, 9:], patches, 2e-6)


@pytest.mark.parametrize("newest_only", [False, True])
def test_gradients_of_the_newest_lane(numbers, near, newest_only):
    model = as_released(numbers).train()
    model.backbone.newest_only = newest_only
    logits = model(numbers["images"])
    assert bool(logits[:, :6].isnan().all()) == newest_only
    near(logits[:, 6:], numbers["train_logits_last_lane"], 1e-6)
    logits[:, 6:].square().sum().backward()
    prompts = numbers["grad.blocks.0.attn.prompts"].flatten(3).transpose(0, 1).unsqueeze(1)
    near(model.backbone.selectors.grad, numbers["grad.selectors"][-1:], 1e-6)
    near(model.backbone.prompts.grad, prompts[-1:], 1e-6)
    near(model.head.weight.grad, numbers["grad.head.weight"], 2e-6)
    near(model.head.bias.grad, numbers["grad.head.bias"], 5e-6)  # values of up to 7
