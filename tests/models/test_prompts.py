import copy

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import cosine_similarity

from rebll_avalanche.models import MultiLabelModel, build_model
from rebll_avalanche.models.prompts import PromptedViT, PromptHead, PromptPool


def tiny(pool_size: int = 4, length: int = 2, top_k: int = 2) -> MultiLabelModel:
    torch.manual_seed(0)
    network = VisionTransformer(
        img_size=16, patch_size=4, embed_dim=8, depth=2, num_heads=2, num_classes=0
    )
    backbone = PromptedViT(network, pool_size=pool_size, length=length, top_k=top_k)
    model = MultiLabelModel(backbone, PromptHead(8, prompt_tokens=backbone.pool.tokens))
    model.head.grow(3)
    return model


@torch.no_grad()
def test_each_image_picks_the_prompts_with_the_closest_keys():
    torch.manual_seed(0)
    pool = PromptPool(5, pool_size=6, length=2, top_k=3)
    queries = torch.randn(4, 5)
    tokens, cosines = pool(queries)
    for query, picked, cosine in zip(queries, tokens, cosines, strict=True):
        similarity = [float(cosine_similarity(query, key, dim=0)) for key in pool.keys]
        order = sorted(range(6), key=lambda k: -similarity[k])[:3]
        assert torch.equal(picked, torch.cat([pool.prompts[k] for k in order]))
        torch.testing.assert_close(cosine, torch.tensor([similarity[k] for k in order]))


@torch.no_grad()
def test_logits_follow_the_formula():
    model = tiny().eval()
    images = torch.rand(2, 3, 16, 16)
    network, pool = model.backbone.network, model.backbone.pool
    for image in images:
        query = network.forward_features(image[None])[0, 0]
        similarity = [float(cosine_similarity(query, key, dim=0)) for key in pool.keys]
        order = sorted(range(4), key=lambda k: -similarity[k])[:2]
        prompts = [pool.prompts[k] for k in order]
        patches = network.patch_embed(image[None])[0]
        embedded = torch.cat([network.cls_token[0], patches]) + network.pos_embed[0]
        sequence = torch.cat([*prompts, embedded])[None]
        for block in network.blocks:
            sequence = block(sequence)
        sequence = network.norm(sequence)[0]
        mean = sum(sequence[k] for k in range(4)) / 4
        expected = model.head.weight @ mean + model.head.bias
        torch.testing.assert_close(model(image[None])[0], expected, rtol=1e-4, atol=1e-5)
    # One image's prediction does not depend on its companions.
    torch.testing.assert_close(model(images)[:1], model(images[:1]), rtol=1e-4, atol=1e-5)


def test_features_give_logits_and_square_activation_maps():
    model = tiny()
    images = torch.rand(2, 3, 16, 16)
    features = model.features(images)
    assert features.shape == (2, 8, 1, 4 + 16)
    assert torch.equal(model.head(features), model(images))
    maps = model.head.class_activation_maps(features)
    assert maps.shape == (2, 3, 4, 4)
    last_patch = features[0, :, 0, -1]
    torch.testing.assert_close(maps[0, :, 3, 3], model.head.weight @ last_patch)


def test_only_prompts_keys_and_head_learn():
    model = tiny().train()
    assert not model.backbone.network.training
    cosines = []
    handle = model.backbone.pool.register_forward_hook(lambda _m, _i, out: cosines.append(out[1]))
    loss = model(torch.rand(3, 3, 16, 16)).square().sum() - cosines[0].sum()
    handle.remove()
    loss.backward()
    learned = {name for name, p in model.named_parameters() if p.grad is not None}
    assert learned == {
        "backbone.pool.prompts",
        "backbone.pool.keys",
        "head.weight",
        "head.bias",
    }
    trainable = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trainable == learned


def test_growth_copy_and_state():
    model = tiny().eval()
    images = torch.rand(2, 3, 16, 16)
    before = model(images)
    weight = model.head.weight.detach().clone()
    model.head.grow(5)
    assert torch.equal(model.head.weight[:3], weight)
    torch.testing.assert_close(model(images)[:, :3], before)
    assert torch.equal(copy.deepcopy(model)(images), model(images))
    other = tiny()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.eval()(images), model(images))


def test_built_by_name_on_a_timm_transformer():
    model = build_model("test_vit", head="l2p", pool_size=3, length=2, top_k=1)
    model.head.grow(2)
    assert model(torch.rand(1, 3, 160, 160)).shape == (1, 2)
    assert model.backbone.pool.prompts.shape == (3, 2, 64)


def test_other_networks_and_impossible_pools_are_refused():
    with pytest.raises(ValueError, match="vision transformer with a class token, got SmallCNN"):
        build_model("small_cnn", head="l2p")
    with pytest.raises(ValueError, match="top_k must lie between 1 and pool_size=2, got 3"):
        PromptPool(4, pool_size=2, top_k=3)
