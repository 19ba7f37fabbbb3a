"""PODNet's distillation against loops over its formula."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.losses import bce_loss
from rebll_avalanche.models import build_model
from rebll_avalanche.models.stages import FeatureTap
from rebll_avalanche.plugins.podnet import PODPlugin, flat_loss, spatial_loss
from rebll_avalanche.strategies import FineTuning


def pooled_by_loops(feature_map: torch.Tensor) -> list[float]:
    """One image's map: squares summed along rows and along columns, scaled to length 1."""
    channels, height, width = feature_map.shape
    values = []
    for c in range(channels):
        for h in range(height):
            values.append(sum(float(feature_map[c, h, w]) ** 2 for w in range(width)))
    for c in range(channels):
        for w in range(width):
            values.append(sum(float(feature_map[c, h, w]) ** 2 for h in range(height)))
    length = math.sqrt(sum(value**2 for value in values))
    return [value / length for value in values]


def test_spatial_distillation_against_loops():
    torch.manual_seed(0)
    student = [torch.randn(2, 3, 4, 2), torch.randn(2, 5, 2, 2)]
    teacher = [torch.randn(2, 3, 4, 2), torch.randn(2, 5, 2, 2)]
    distances = []
    for mine, other in zip(student, teacher, strict=True):
        images = [
            math.dist(pooled_by_loops(mine[image]), pooled_by_loops(other[image]))
            for image in range(2)
        ]
        distances.append(sum(images) / 2)
    assert spatial_loss(student, teacher).item() == pytest.approx(sum(distances) / 2, rel=1e-5)


def test_flat_distillation_against_loops():
    torch.manual_seed(0)
    student, teacher = torch.randn(3, 4), torch.randn(3, 4)
    cosines = [
        sum(float(a) * float(b) for a, b in zip(x, y, strict=True))
        / (math.hypot(*x.tolist()) * math.hypot(*y.tolist()))
        for x, y in zip(student, teacher, strict=True)
    ]
    assert flat_loss(student, teacher).item() == pytest.approx(1 - sum(cosines) / 3, rel=1e-5)


def test_equal_features_cost_nothing_and_pull_nowhere():
    feature_map = torch.randn(2, 3, 4, 4)
    student = feature_map.clone().requires_grad_()
    loss = spatial_loss([student], [feature_map]) + flat_loss(
        student.mean((2, 3)), feature_map.mean((2, 3))
    )
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert student.grad.abs().max() < 1e-5


def image_benchmark():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(18, 3, 8, 8, generator=generator)
    labels = (torch.rand(18, 3, generator=generator) < 0.5).float()
    labels[torch.arange(18), torch.arange(18) % 3] = 1.0
    return multilabel_benchmark((inputs, labels), (inputs, labels), "B2-C1")


def features_of(model, images):
    tap = FeatureTap()
    tap.watch(model)
    with torch.no_grad():
        model(images)
    return tap.features()


def test_the_loss_grows_with_the_share_of_old_classes():
    """Two of three classes are old in the second experience: the factor is sqrt(3 / 1)."""
    plugin = PODPlugin(spatial_weight=2.0, flat_weight=0.5)
    steps = []

    class Probe(SupervisedPlugin):
        def before_backward(self, strategy, **kwargs):
            logits = strategy.mb_output
            expected = bce_loss(logits, strategy.mb_y[:, : logits.shape[1]])
            if plugin.teacher.model is not None:
                # The student in training mode once more: batch statistics are the same.
                maps, embedding = features_of(copy.deepcopy(strategy.model), strategy.mb_x)
                theirs, embedded = features_of(plugin.teacher.model, strategy.mb_x)
                assert len(maps) == len(theirs) > 1
                distilled = 2.0 * spatial_loss(maps, theirs)
                distilled += 0.5 * flat_loss(embedding, embedded)
                expected = expected + math.sqrt(3) * distilled
                steps.append(distilled.item())
            assert strategy.loss.item() == pytest.approx(expected.item(), abs=1e-4)

    torch.manual_seed(0)
    model = build_model("small_cnn")
    strategy = FineTuning(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        plugins=[plugin, Probe()],
        train_mb_size=6,
    )
    for experience in image_benchmark().train_stream:
        strategy.train(experience)
    assert len(steps) > 1
    assert min(steps) > 0
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_hooks for module in plugin.teacher.model.modules())


def test_a_network_without_feature_maps_keeps_its_embedding(vector_benchmark):
    plugin = PODPlugin()
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    strategy = FineTuning(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), plugins=[plugin]
    )
    for experience in vector_benchmark("B2-C2").train_stream:
        strategy.train(experience)
    assert set(plugin.terms.last) == {"flat"}


def test_the_teacher_survives_a_restart():
    plugin, other = PODPlugin(), PODPlugin()
    model = build_model("small_cnn")
    strategy = FineTuning(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), plugins=[plugin]
    )
    strategy.train(image_benchmark().train_stream[0])
    other.load_state_dict(plugin.state_dict())
    saved, loaded = plugin.state_dict()["teacher"], other.state_dict()["teacher"]
    assert saved.keys() == loaded.keys()
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)


def test_a_model_without_a_backbone_is_refused(vector_benchmark):
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    strategy = FineTuning(model=model, optimizer=optimizer, plugins=[PODPlugin()])
    with pytest.raises(ValueError, match="Linear has no 'backbone'"):
        strategy.train(vector_benchmark().train_stream[0])
