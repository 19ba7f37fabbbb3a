"""A-GEM's reference batches and projection."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from rebll_avalanche.labels import PartialLabelBCE, label_matrix
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins.agem import DrawingAGEMPlugin
from rebll_avalanche.strategies import AveragedGEM, FineTuning


@pytest.fixture
def plugin(vector_benchmark):
    """With three images of each of two experiences."""
    plugin = DrawingAGEMPlugin(3, 4)
    for experience in vector_benchmark("B2-C2").train_stream:
        plugin.update_memory(experience.dataset, num_workers=2)
    return plugin


def test_every_experience_gives_its_share_without_repeats(plugin):
    rows = [torch.stack([x for x, _ in buffer]) for buffer in plugin.buffers]
    drawn = set()
    for _ in range(40):
        inputs, labels = plugin.sample_from_memory()
        assert inputs.shape == (4, 6)
        assert labels.shape == (4, 4)
        for images, batch in zip(rows, inputs.split(2), strict=True):
            picked = (batch[:, None] == images).all(dim=2).nonzero()[:, 1].tolist()
            assert len(set(picked)) == 2
            drawn.add(tuple(picked))
    assert len(drawn) == 6, "every ordered pair comes"


def test_the_batch_depends_on_torchs_generator_alone(plugin):
    batches = []
    for _ in range(2):
        torch.manual_seed(3)
        batches.append(plugin.sample_from_memory()[0])
    assert torch.equal(*batches)


def test_small_memories_give_all_they_have(plugin):
    plugin.sample_size = 100
    inputs, _ = plugin.sample_from_memory()
    kept = torch.stack([x for buffer in plugin.buffers for x, _ in buffer])
    assert sorted(inputs.tolist()) == sorted(kept.tolist())
    assert len(kept) == 6
    plugin.sample_size = 1
    assert len(plugin.sample_from_memory()[0]) == 2, "one of each at least"


def test_a_step_never_goes_against_the_memory(vector_benchmark):
    """The projected gradient has no component that raises the loss of the reference batch."""
    angles = []

    class Probing(DrawingAGEMPlugin):
        def after_backward(self, strategy, **kwargs):
            super().after_backward(strategy, **kwargs)
            if self.buffers:
                gradient = torch.cat([p.grad.flatten() for p in strategy.model.parameters()])
                angles.append((gradient @ self.reference_gradients).item())

    torch.manual_seed(0)
    model = build_model("vector", in_features=6, hidden_layer=4)
    strategy = FineTuning(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        criterion=PartialLabelBCE(),
        plugins=[Probing(6, 6)],
        train_mb_size=4,
        train_epochs=3,
    )
    for experience in vector_benchmark("B2-C2").train_stream:
        strategy.train(experience)
    assert len(angles) > 5
    assert min(angles) > -1e-6
    assert any(abs(angle) < 1e-6 for angle in angles), "some had to be projected"


def test_one_budget_for_all_experiences(vector_benchmark):
    model = build_model("vector", in_features=6)
    strategy = AveragedGEM(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mem_size=10
    )
    for experience in vector_benchmark("B2-C1").train_stream:
        strategy.train(experience)
    assert [len(label_matrix(buffer)) for buffer in strategy.agem.buffers] == [3, 3, 3]


def test_a_memory_without_gradient_changes_nothing(plugin):
    """A reference whose square underflows would turn the projection into NaN."""
    model = build_model("vector", in_features=6)
    model.head.grow(2)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    size = sum(parameter.numel() for parameter in model.parameters())
    plugin.reference_gradients = torch.full((size,), -1e-30)
    plugin.after_backward(SimpleNamespace(model=model, device="cpu"))
    assert all((parameter.grad == 1).all() for parameter in model.parameters())
