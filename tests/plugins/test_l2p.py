"""L2P: the experience's labels, keys pulled to the images that pick them, a frozen network."""

import copy

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import binary_cross_entropy_with_logits

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.models.prompts import PromptedViT, PromptHead
from rebll_avalanche.strategies import L2P


def prompted_model():
    torch.manual_seed(0)
    network = VisionTransformer(
        img_size=8, patch_size=4, embed_dim=8, depth=1, num_heads=2, num_classes=0
    )
    backbone = PromptedViT(network, pool_size=4, length=2, top_k=2)
    return MultiLabelModel(backbone, PromptHead(8, prompt_tokens=backbone.pool.tokens))


def image_benchmark():
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(16, 3, 8, 8, generator=generator)
    labels = (torch.rand(16, 4, generator=generator) < 0.5).float()
    labels[torch.arange(16), torch.arange(16) % 4] = 1.0
    return multilabel_benchmark((images, labels), (images, labels), "B2-C2")


class Recorder(SupervisedPlugin):
    def __init__(self):
        super().__init__()
        self.steps = []

    def after_backward(self, strategy, **kwargs):
        lo = len(strategy.experience.previous_classes)
        hi = len(strategy.experience.classes_seen_so_far)
        logits, targets = strategy.mb_output[:, lo:hi], strategy.mb_y[:, lo:hi]
        bce = binary_cross_entropy_with_logits(logits, targets)
        network = copy.deepcopy(strategy.model.backbone.network)
        pool = strategy.model.backbone.pool
        with torch.no_grad():
            pulled = 0.0
            for image in strategy.mb_x:
                query = network.forward_features(image[None])[0, 0]
                cosine = torch.nn.functional.cosine_similarity(query[None], pool.keys)
                pulled += cosine.sort(descending=True).values[:2].sum().item()
        self.steps.append((strategy.loss.item(), bce.item() - 0.5 * pulled / len(strategy.mb_x)))

    def after_update(self, strategy, **kwargs):
        gradients = [p.grad for p in strategy.model.parameters() if p.grad is not None]
        self.norm = torch.stack([g.norm() for g in gradients]).norm().item()


def test_loss_follows_the_formula_and_the_network_stays_frozen():
    model, recorder = prompted_model(), Recorder()
    before = copy.deepcopy(model.backbone.network.state_dict())
    prompts = model.backbone.pool.prompts.detach().clone()
    strategy = L2P(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1),
        grad_clip=0.01,
        train_mb_size=5,
        plugins=[recorder],
        evaluator=None,
    )
    for experience in image_benchmark().train_stream:
        strategy.train(experience)
        assert recorder.norm <= 0.01 + 1e-6
    for loss, expected in recorder.steps:
        assert loss == pytest.approx(expected, rel=1e-4)
    after = model.backbone.network.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert not torch.equal(model.backbone.pool.prompts, prompts)
    assert set(strategy.l2p.terms.last) == {"pull"}


def test_memory_replays_the_labels_that_images_came_with():
    model = prompted_model()
    strategy = L2P(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        mem_size=4,
        train_mb_size=8,
        evaluator=None,
    )
    for experience in image_benchmark().train_stream:
        strategy.train(experience)
    replay = strategy.plugins[1]
    assert len(replay.memory) == 4
    assert replay.memory.labels.isnan().any()
    assert replay.terms.last["er"] > 0
