"""LwF for labels, and Avalanche's own beside it."""

from __future__ import annotations

import math

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.regularization import LearningWithoutForgetting

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.losses import bce_loss
from rebll_avalanche.models import GrowingLinear, MultiLabelModel, build_model
from rebll_avalanche.plugins.lwf import SigmoidDistillation, SigmoidLwFPlugin, SoftmaxLwFPlugin
from rebll_avalanche.strategies import FineTuning


class Probe(SupervisedPlugin):
    """Compares each step's loss, as it is about to be differentiated, with ``expected``."""

    def __init__(self, expected):
        super().__init__()
        self.expected = expected
        self.steps = 0

    def before_backward(self, strategy, **kwargs):
        assert strategy.loss.item() == pytest.approx(self.expected(strategy).item(), abs=1e-5)
        self.steps += 1


def train(benchmark, *plugins):
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    strategy = FineTuning(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        plugins=plugins,
        train_mb_size=8,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    return strategy


class Fixed(torch.nn.Module):
    """A teacher with given logits."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, x):
        return self.logits[: len(x)]


def distillation(teacher_logits, old_classes, **options):
    method = SigmoidDistillation(**options)
    method.teacher.model = Fixed(teacher_logits)
    method._old_classes = old_classes
    return method


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_distillation_is_the_mean_cross_entropy_over_old_columns(temperature):
    torch.manual_seed(0)
    student, teacher = torch.randn(3, 5), torch.randn(3, 4)
    total = 0.0
    for image in range(3):
        for column in range(4):
            p = 1 / (1 + math.exp(-float(student[image, column]) / temperature))
            q = 1 / (1 + math.exp(-float(teacher[image, column]) / temperature))
            total -= q * math.log(p) + (1 - q) * math.log(1 - p)
    method = distillation(teacher, 4, alpha=0.7, temperature=temperature)
    loss = method(torch.zeros(3, 2), student, None)
    assert float(loss) == pytest.approx(0.7 * total / 12, abs=1e-6)


def test_agreeing_with_the_teacher_leaves_no_gradient():
    logits = torch.randn(4, 3)
    student = logits.clone().requires_grad_()
    distillation(logits, 3)(torch.zeros(4, 2), student, None).backward()
    assert student.grad.abs().max() < 1e-7


def test_there_is_nothing_to_distil_before_there_is_a_teacher():
    assert float(SigmoidDistillation()(torch.zeros(2, 2), torch.randn(2, 3), None)) == 0.0


def test_a_softmax_does_not_see_all_old_classes_vanish():
    """The reason for a sigmoid: every old logit sinks by 5 and Avalanche's loss stays zero."""
    teacher = torch.randn(4, 3)
    softmax = LearningWithoutForgetting(alpha=1, temperature=2)
    softmax.prev_model = Fixed(teacher)
    softmax.prev_classes_by_task[0] = {0, 1, 2}
    images = torch.zeros(4, 2)
    assert float(softmax(images, teacher - 5, None)) == pytest.approx(0.0, abs=1e-6)
    sigmoid = distillation(teacher, 3)
    assert float(sigmoid(images, teacher - 5, None)) > float(sigmoid(images, teacher, None)) + 0.5


def test_the_strategy_learns_from_both_terms(vector_benchmark):
    plugin = SigmoidLwFPlugin(alpha=0.8, temperature=2.0)

    def expected(strategy):
        logits, targets = strategy.mb_output, strategy.mb_y[:, : strategy.mb_output.shape[1]]
        loss = bce_loss(logits, targets)
        if plugin.teacher.model is not None:
            teacher = plugin.teacher.model(strategy.mb_x)
            old = teacher.shape[1]
            assert old < logits.shape[1]
            loss = loss + 0.8 * bce_loss(logits[:, :old] / 2, (teacher / 2).sigmoid())
        return loss

    probe = Probe(expected)
    train(vector_benchmark(), plugin, probe)
    assert probe.steps == 6
    assert plugin.terms.last["kd"] > 0


def test_old_columns_stay_closer_to_the_teacher_than_in_fine_tuning():
    """With a shared layer that fine-tuning is free to ruin."""

    def drift(*plugins):
        torch.manual_seed(0)
        inputs = torch.randn(60, 6)
        labels = (inputs @ torch.randn(6, 4) > 0).float()
        benchmark = multilabel_benchmark((inputs, labels), (inputs, labels), "B2-C2")
        model = MultiLabelModel(torch.nn.Linear(6, 3), GrowingLinear(3))
        strategy = FineTuning(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            plugins=plugins,
            train_mb_size=16,
            train_epochs=10,
        )
        strategy.train(benchmark.train_stream[0])
        before = model(inputs).detach().sigmoid()
        strategy.train(benchmark.train_stream[1])
        return (model(inputs)[:, :2].sigmoid() - before).abs().mean().item()

    assert drift(SigmoidLwFPlugin()) < 0.7 * drift()


def test_the_teacher_survives_a_restart(vector_benchmark):
    benchmark = vector_benchmark()
    plugin = SigmoidLwFPlugin()
    train(benchmark, plugin)
    restored = SigmoidLwFPlugin()
    restored.load_state_dict(plugin.state_dict())
    model = build_model("vector", in_features=6)
    model.head.grow(4)
    strategy = type("Strategy", (), {"model": model})()
    restored.teacher.begin_experience(strategy)
    plugin.teacher.begin_experience(strategy)
    images = torch.randn(5, 6)
    assert torch.equal(restored.teacher.logits(images), plugin.teacher.logits(images))


def test_avalanches_own_runs_and_distils_a_softmax_over_the_classes_it_has_seen(vector_benchmark):
    plugin = SoftmaxLwFPlugin(alpha=1.5, temperature=2.0)

    def expected(strategy):
        logits, targets = strategy.mb_output, strategy.mb_y[:, : strategy.mb_output.shape[1]]
        loss = bce_loss(logits, targets)
        if plugin.lwf.prev_model is not None:
            teacher = plugin.lwf.prev_model(strategy.mb_x)
            q = torch.softmax(teacher / 2, dim=1)
            log_p = torch.log_softmax(logits[:, : teacher.shape[1]] / 2, dim=1)
            loss = loss + 1.5 * (q * (q.log() - log_p)).sum(dim=1).mean()
        return loss

    probe = Probe(expected)
    train(vector_benchmark(), plugin, probe)
    assert probe.steps == 6
    assert plugin.lwf.prev_classes_by_task == {0: {0, 1, 2, 3}}
