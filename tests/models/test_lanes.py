"""MULTI-LANE's network against its formula; old lanes do not move."""

import copy
from types import SimpleNamespace

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.nn.functional import normalize
from torch.utils.data import TensorDataset

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.models import MultiLabelModel, build_model
from rebll_avalanche.models.lanes import LanedViT, LaneHead
from rebll_avalanche.plugins.lanes import LanesPlugin

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
    selectors, prompts = (
        torch.cat([getattr(backbone, f"old_{name}"), getattr(backbone, name)])[lane]
        for name in ("selectors", "prompts")
    )
    frozen = torch.cat([network.cls_token[0], network.patch_embed(image[None])[0]])
    frozen = frozen + network.pos_embed[0]
    token = network.cls_token[0, 0]
    width = DIM // HEADS
    for number, block in enumerate(network.blocks):
        seen = block.norm1(frozen)
        rows = [block.norm1(token)]
        for selector in selectors:
            share = (seen @ block.norm1(selector) / DIM**0.5).softmax(dim=0)
            rows.append(sum(share[n] * seen[n] for n in range(1 + PATCHES)))
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
        selectors = torch.stack([selector + block.norm1(selector) for selector in selectors])
        selectors = torch.stack([s + block.mlp(block.norm2(s)) for s in selectors])
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
    lane = {f"backbone.{name}" for name in ("selectors", "prompts")}
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


def test_lanes_without_labels_are_left_out_of_training_and_do_not_move():
    model, images = tiny(2, 1).train(), torch.rand(4, 3, 16, 16)
    everything = model(images)
    model.backbone.newest_only = True
    newest = model(images)
    assert newest[:, :2].isnan().all()
    torch.testing.assert_close(newest[:, 2:], everything[:, 2:])
    targets = torch.tensor([[float("nan"), float("nan"), 1.0]] * 4)
    PartialLabelBCE()(newest, targets).backward()
    assert not model.head.weight.grad[:2].any()
    assert model.head.weight.grad[2].any()
    assert model.eval()(images).isfinite().all()


def test_lanes_without_labels_cost_nothing(monkeypatch):
    model, images = tiny(2, 1, 1).train(), torch.rand(1, 3, 16, 16)
    lanes = []
    step = LanedViT._step

    def counted(block, token, *rest):
        lanes.append(token.shape[1])
        return step(block, token, *rest)

    monkeypatch.setattr(LanedViT, "_step", staticmethod(counted))
    model(images)
    assert lanes == [2, 1] * 3
    lanes.clear()
    model.backbone.newest_only = True
    model(images)
    assert lanes == [1] * 3


@pytest.mark.parametrize(("old_label", "learned"), [(float("nan"), False), (1.0, True)])
def test_old_classes_learn_where_an_experience_annotates_them(old_label, learned):
    model = tiny(2, 1)
    labels = torch.tensor([[old_label, old_label, 1.0], [old_label, old_label, 0.0]] * 2)
    dataset = TensorDataset(torch.rand(4, 3, 16, 16), labels)
    dataset.targets = labels
    experience = SimpleNamespace(
        dataset=dataset, previous_classes=range(2), classes_seen_so_far=range(3)
    )
    strategy, plugin = SimpleNamespace(model=model, experience=experience), LanesPlugin()
    plugin.before_training_exp(strategy)
    loss = PartialLabelBCE()(model.train()(dataset.tensors[0]), labels)
    loss.backward()
    assert loss.isfinite()
    assert bool(model.head.weight.grad[:2].any()) == learned
    plugin.after_training_exp(strategy)
    assert not model.backbone.newest_only
