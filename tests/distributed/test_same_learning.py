"""Several ranks at a part of the batch each learn what one process learns at the whole batch."""

from __future__ import annotations

import random

import pytest
import torch
from avalanche.training import Naive
from torch import nn

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.losses import asymmetric_bce
from rebll_avalanche.metrics import last_evaluation, multilabel_evaluator, read_metrics
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins import RebLLPlugin, SchedulePlugin
from rebll_avalanche.plugins.gradients import GradientPlugin
from rebll_avalanche.strategies import ClosedForm, RebLL


def pictures(dtype=torch.float64, **options):
    """Four classes of colours in three experiences of odd sizes, so that parts differ in length."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(50, 4, generator=generator) < 0.4).float()
    labels[torch.arange(50), torch.arange(50) % 4] = 1.0
    colours = labels @ torch.rand(4, 3, generator=generator)
    noise = torch.rand(50, 3, 8, 8, generator=generator)
    images = (colours[:, :, None, None] + noise).to(dtype)
    train, test = (images[:29], labels[:29]), (images[29:], labels[29:])
    return multilabel_benchmark(train, test, "B2-C1", **options)


def network(dtype=torch.float64, **options):
    torch.manual_seed(0)
    return build_model("small_cnn", pooling="mean", **options).to(dtype)


def evaluator():
    return multilabel_evaluator(thresholds=(0.5,))


def rebll(model, **options):
    values = {"mem_size": 5, "batch_size_mem": 3, "train_mb_size": 7, "train_epochs": 2}
    return RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5),
        evaluator=evaluator(),
        **(values | options),
    )


def dropped_in(model, **options):
    """The same method inside a strategy of Avalanche's."""
    return Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=PartialLabelBCE(),
        train_mb_size=7,
        eval_mb_size=4,
        plugins=[RebLLPlugin(mem_size=5, batch_size_mem=3, policy="prs", **options)],
        evaluator=evaluator(),
    )


def best(model):
    """A closed-form teacher, a schedule and accumulated gradients beside it."""
    plugins = [SchedulePlugin(), GradientPlugin(accumulate=2)]
    return rebll(model, preset="best", plugins=plugins, policy="herding")


def closed_form(model):
    return ClosedForm(model=model, train_mb_size=7, evaluator=evaluator())


def adapted(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return ClosedForm(model=model, optimizer=optimizer, adapt=True, train_mb_size=7, train_epochs=2)


def learned(make, benchmark, model):
    """Everything that a strategy knows after the stream, and what it was told on the way."""
    torch.manual_seed(3)
    strategy = make(model)
    told = []
    for trained, tested in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(trained)
        told.append(read_metrics(strategy.eval([tested])))
    memory = getattr(getattr(strategy, "rebll", None), "memory", None)
    try:
        seen = last_evaluation(strategy.evaluator)
        scores, truth = seen.scores, seen.truth
    except ValueError:
        scores = truth = torch.zeros(0)
    losses = {
        name: torch.tensor(values[1], dtype=torch.float64)
        for name, values in strategy.evaluator.get_all_metrics().items()
        if "Loss" in name or "FPR" in name
    }
    return {
        "weights": {name: value.clone() for name, value in strategy.model.state_dict().items()},
        "memory": {} if memory is None else memory.state_dict(),
        "scores": scores,
        "truth": truth,
        "metrics": told,
        "losses": losses,
        "random": torch.get_rng_state(),
    }


def assert_same(one, other, tolerance, path=""):
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for name in one:
            assert_same(one[name], other[name], tolerance, f"{path}/{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for first, second in zip(one, other, strict=True):
            assert_same(first, second, tolerance, path)
    else:
        torch.testing.assert_close(
            one, other, atol=tolerance, rtol=tolerance, equal_nan=True, msg=lambda m: f"{path}: {m}"
        )


@pytest.mark.parametrize("make", [rebll, dropped_in, best, closed_form, adapted])
def test_two_ranks_equal_one_process(on_ranks, make):
    def work():
        return learned(make, pictures(), network())

    alone = work()
    first, second = on_ranks(work)
    assert_same(first, second, 0)
    assert_same(alone, first, 1e-6)


@pytest.mark.parametrize(("bn_mode", "tolerance"), [("frozen", 1e-6), ("train", 1e-4)])
def test_single_precision_stays_within_its_rounding(on_ranks, bn_mode, tolerance):
    """Batch norm over fewer images multiplies the rounding, in a single process as well."""

    def make(model):
        return rebll(model, train_mb_size=15, batch_size_mem=16, mem_size=16)

    def work():
        return learned(make, pictures(torch.float32), network(torch.float32, bn_mode=bn_mode))

    alone, (first, _) = work(), on_ranks(work)
    assert_same(alone["weights"], first["weights"], tolerance)
    assert_same(alone["memory"], first["memory"], 0)


def test_frozen_batch_norm_and_more_ranks_than_images_in_the_last_batch(on_ranks):
    """29 images in batches of 7 leave one for three ranks, and memory draws of 2 leave one empty."""

    def work():
        def make(model):
            return rebll(model, batch_size_mem=2)

        return learned(make, pictures(), network(bn_mode="frozen"))

    alone, ranks = work(), on_ranks(work, count=3)
    for rank in ranks:
        assert_same(alone, rank, 1e-6)


class Noisy(nn.Module):
    """A transform that draws from all three generators."""

    def forward(self, image):
        shift = float(torch.rand(())) + random.random()
        return image + shift


def test_augmentation_belongs_to_the_image_whatever_the_number_of_ranks(on_ranks):
    def work():
        return learned(rebll, pictures(train_transform=Noisy()), network())

    (one,), two = on_ranks(work, count=1), on_ranks(work)
    assert_same(one, two[0], 1e-6)
    still = on_ranks(lambda: learned(rebll, pictures(), network()), count=1)[0]
    assert not torch.allclose(one["scores"], still["scores"], atol=1e-6)


def test_loss_parts_and_gradients_add_up(on_ranks):
    """Ranks with different numbers of labels: a mean of means would be another number."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    targets = (torch.rand(5, 3, generator=generator) < 0.5).double()
    targets[0, :] = targets[1, 1:] = torch.nan

    def part(rows, reduction):
        mine = logits[rows].clone().requires_grad_()
        loss = asymmetric_bce(mine, targets[rows], positive_exponent=1.5, reduction=reduction)
        loss.backward()
        return loss.detach(), mine.grad

    def work():
        rank = torch.distributed.get_rank()
        rows = slice(0, 2) if rank == 0 else slice(2, 5)
        return [part(rows, reduction) for reduction in ("mean", "class_sum")]

    first, second = on_ranks(work)
    for reduction, a, b in zip(("mean", "class_sum"), first, second, strict=True):
        loss, gradient = part(slice(None), reduction)
        torch.testing.assert_close(a[0] + b[0], loss)
        torch.testing.assert_close(torch.cat([a[1], b[1]]), gradient)
