"""MULTI-LANE's network against its formula; old lanes do not move."""

import copy

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.nn.functional import normalize

from rebll_avalanche.models import MultiLabelModel, build_model
from rebll_avalanche.models.lanes import LanedViT, LaneHead

DIM, HEADS, PATCHES = 8, 2, 16


def tiny(*sizes: int) -> MultiLabelModel:
    torch.manual_seed(0)
    network = VisionTransformer(
        img_size=16, patch_size=4, embed_dim=DIM, depth=3, num_heads=HEADS, num_classes=0
    )
    backbone = LanedViT(network, num_selectors=3, num_prompts=2, prompted_blocks=2)
    model = MultiLabelModel(backbone, LaneHead(DIM))
    for total in torch.tensor(sizes).cumsum(0).tolist():
        backbone.grow(total)
        model.head.grow(total)
        for parameter in backbone.parameters():
            if parameter.requires_grad:
                nn.init.normal_(parameter)
    return model


def lane_of_one_image(model: MultiLabelModel, image: torch.Tensor, lane: int) -> torch.Tensor:
    """The formula, token by token and head by head."""
    backbone, network = model.backbone, model.backbone.network
    selectors, prompts, offset = (
        torch.cat([getattr(backbone, f"old_{name}"), getattr(backbone, name)])[lane]
        for name in ("selectors", "prompts", "class_token")
    )
    frozen = torch.cat([network.cls_token[0], network.patch_embed(image[None])[0]])
    frozen = frozen + network.pos_embed[0]
    token = frozen[0] + offset
    width = DIM // HEADS
    for number, block in enumerate(network.blocks):
        patches = block.norm1(frozen)[1:]
        rows = [block.norm1(token)]
        for selector in selectors:
            share = (patches @ selector / DIM**0.5).softmax(dim=0)
            rows.append(sum(share[n] * patches[n] for n in range(PATCHES)))
        query, keys, values = block.attn.qkv(torch.stack(rows)).split(DIM, dim=1)
        if number < 2:
            keys = torch.cat([prompts[number, 0], keys])
            values = torch.cat([prompts[number, 1], values])
        heads = []
        for start in range(0, DIM, width):
            part = slice(start, start + width)
            scores = (keys[:, part] @ query[0, part] / width**0.5).softmax(dim=0)
            heads.append(scores @ values[:, part])
        token = token + block.attn.proj(torch.cat(heads))
        token = token + block.mlp(block.norm2(token))
        frozen = block(frozen[None])[0]
    return normalize(network.norm(token), dim=0)


@torch.no_grad()
def test_logits_follow_the_formula():
    model = tiny(2, 1).eval()
    images = torch.rand(2, 3, 16, 16)
    for image, logits in zip(images, model(images), strict=True):
        first, second = (lane_of_one_image(model, image, lane) for lane in (0, 1))
        features = torch.stack([first, first, second])
        expected = (features * model.head.weight).sum(dim=1) + model.head.bias
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    maps = model.head.class_activation_maps(model.features(images))
    assert maps.shape == (2, 3, 4, 4)


def test_a_new_lane_begins_where_the_last_one_ended_and_leaves_it_alone():
    model = tiny(2)
    images = torch.rand(2, 3, 16, 16)
    before = model.eval()(images).detach()
    selectors = model.backbone.selectors.detach().clone()
    model.backbone.grow(3)
    model.head.grow(3)
    assert torch.equal(model.backbone.selectors, selectors)
    assert torch.equal(model.backbone.old_selectors, selectors)
    model.train()(images)[:, 2].sum().backward()
    learned = {name for name, p in model.named_parameters() if p.grad is not None}
    lane = {f"backbone.{name}" for name in ("selectors", "prompts", "class_token")}
    assert learned == lane | {"head.weight", "head.bias"}
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.5)
    optimizer.step()
    assert torch.equal(model.backbone.old_selectors, selectors)
    after = model.eval()(images).detach()
    # Two lanes in one product may round differently from one lane alone.
    torch.testing.assert_close(after[:, :2], before, atol=1e-6, rtol=1e-5)


def test_a_state_of_any_number_of_lanes_loads_and_copies():
    model, images = tiny(2, 1, 1).eval(), torch.rand(2, 3, 16, 16)
    empty = tiny()
    empty.load_state_dict(model.state_dict())
    for other in (empty.eval(), copy.deepcopy(model)):
        assert torch.equal(other(images), model(images))
    assert not empty.backbone.old_prompts.requires_grad
    assert empty.backbone.selectors.requires_grad


def test_it_needs_a_transformer():
    with pytest.raises(ValueError, match="vit_base_patch16_224"):
        build_model("small_cnn", head="lanes")
