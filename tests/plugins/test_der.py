"""DER++ against loops over its formula."""

from __future__ import annotations

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.losses import bce_loss
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins.der import DERPlusPlusPlugin, stored_logit_loss
from rebll_avalanche.strategies import DERPlusPlus, FineTuning

NAN = float("nan")


def strategy_with(*plugins, **options):
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    return FineTuning(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        plugins=plugins,
        train_mb_size=8,
        **options,
    )


def test_stored_logits_are_compared_where_they_existed():
    torch.manual_seed(0)
    logits, stored = torch.randn(3, 4, requires_grad=True), torch.randn(3, 5)
    stored[0, 2:] = NAN
    stored[2, 3:] = NAN
    squares = [
        (logits[i, j].item() - stored[i, j].item()) ** 2
        for i in range(3)
        for j in range(4)
        if stored[i, j] == stored[i, j]
    ]
    assert len(squares) == 2 + 4 + 3
    loss = stored_logit_loss(logits, stored)
    assert loss.item() == pytest.approx(sum(squares) / len(squares), rel=1e-6)
    loss.backward()
    assert (logits.grad[0, 2:] == 0).all()
    assert torch.isfinite(logits.grad).all()


def test_nothing_stored_costs_nothing():
    assert float(stored_logit_loss(torch.randn(2, 3), torch.full((2, 3), NAN))) == 0.0


def test_logits_are_captured_at_the_end_of_their_own_experience(vector_benchmark):
    benchmark = vector_benchmark("B2-C1")
    plugin = DERPlusPlusPlugin(mem_size=100)
    strategy = strategy_with(plugin)
    captured = []
    for experience in benchmark.train_stream:
        strategy.train(experience)
        captured.append(plugin.logits.clone())
        seen = len(experience.classes_seen_so_far)
        new, old = plugin.memory.rows_of(experience.current_experience)
        expected = strategy.model(plugin.memory.images(new, augment=False))
        assert torch.allclose(plugin.logits[new, :seen], expected)
        assert plugin.logits[new, seen:].isnan().all()
        if len(old):
            # A memory with room for everyone keeps its rows in order.
            assert torch.equal(plugin.logits[old].nan_to_num(), captured[-2].nan_to_num())


def test_logits_stay_with_their_images_when_memory_is_full(vector_benchmark):
    plugin = DERPlusPlusPlugin(mem_size=7)
    strategy = strategy_with(plugin)
    known: dict[tuple[int, int], torch.Tensor] = {}
    for experience in vector_benchmark("B2-C1").train_stream:
        strategy.train(experience)
        memory = plugin.memory
        places = list(zip(memory.experience.tolist(), memory.index.tolist(), strict=True))
        for place, logits in zip(places, plugin.logits, strict=True):
            if place[0] < experience.current_experience:
                assert torch.equal(known[place].nan_to_num(), logits.nan_to_num())
        known = dict(zip(places, plugin.logits.clone(), strict=True))
        assert len(places) == len(plugin.logits) <= 7


def test_the_loss_is_the_sum_of_three_terms(vector_benchmark):
    plugin = DERPlusPlusPlugin(mem_size=100, batch_size_mem=100, alpha=0.3, beta=0.6)
    replayed = []

    class Probe(SupervisedPlugin):
        def before_backward(self, strategy, **kwargs):
            logits = strategy.mb_output
            expected = bce_loss(logits, strategy.mb_y[:, : logits.shape[1]])
            if len(plugin.memory):
                # The draws are as large as memory, so each holds all of it in some order.
                rows = torch.arange(len(plugin.memory))
                again = strategy.model(plugin.memory.images(rows, augment=False))
                width = again.shape[1]
                known = ~plugin.logits[:, :width].isnan()
                squares = (again - plugin.logits[:, :width])[known].square()
                expected = expected + 0.3 * squares.mean()
                expected = expected + 0.6 * bce_loss(again, plugin.memory.labels[:, :width])
                replayed.append(len(rows))
            assert strategy.loss.item() == pytest.approx(expected.item(), abs=1e-5)

    strategy = strategy_with(plugin, Probe())
    for experience in vector_benchmark("B2-C1").train_stream:
        strategy.train(experience)
    assert len(set(replayed)) == 2


def test_the_two_draws_are_independent(vector_benchmark, monkeypatch):
    plugin = DERPlusPlusPlugin(mem_size=20, batch_size_mem=5)
    strategy = strategy_with(plugin)
    stream = vector_benchmark("B2-C1").train_stream
    strategy.train(stream[0])
    drawn = []
    images = plugin.memory.images

    def spy(rows, *, augment):
        drawn.append(rows.tolist())
        return images(rows, augment=augment)

    monkeypatch.setattr(plugin.memory, "images", spy)
    plugin.before_training_exp = lambda strategy, **kwargs: None
    strategy.train(stream[1])
    first, second = drawn[0], drawn[1]
    assert len(first) == len(second) == 5
    assert first != second


def test_memory_and_logits_survive_a_restart(vector_benchmark):
    plugin = DERPlusPlusPlugin(mem_size=9)
    strategy = strategy_with(plugin)
    stream = vector_benchmark("B2-C1").train_stream
    strategy.train(stream[0])
    other = DERPlusPlusPlugin(mem_size=9)
    other.load_state_dict(plugin.state_dict())
    other.memory.bind(stream[1])
    rows = torch.arange(len(plugin.memory))
    assert torch.equal(other.logits.nan_to_num(), plugin.logits.nan_to_num())
    mine, theirs = (m.images(rows, augment=False) for m in (plugin.memory, other.memory))
    assert torch.equal(mine, theirs)


def test_without_memory_it_is_fine_tuning(vector_benchmark):
    def weights(build, **options):
        torch.manual_seed(0)
        model = build_model("vector", in_features=6)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        strategy = build(model=model, optimizer=optimizer, train_mb_size=8, **options)
        for experience in vector_benchmark().train_stream:
            strategy.train(experience)
        return model.head.weight

    assert torch.equal(weights(DERPlusPlus, mem_size=0), weights(FineTuning))
