"""A training step of CSC is its formula."""

import copy
import math

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.models import build_model
from rebll_avalanche.plugins.csc import entropy_penalty
from rebll_avalanche.strategies import CSC


class Recorder(SupervisedPlugin):
    def __init__(self):
        super().__init__()
        self.steps, self.previous = [], None

    def after_backward(self, strategy, **kwargs):
        teacher = None if self.previous is None else self.previous(strategy.mb_x).detach()
        self.steps.append(
            (
                strategy.experience.current_experience,
                strategy.loss.item(),
                strategy.mb_output.detach(),
                strategy.mb_y,
                teacher,
            )
        )

    def after_training_exp(self, strategy, **kwargs):
        self.previous = copy.deepcopy(strategy.model).eval()


def slow_bce(logits, targets):
    total, count = 0.0, 0
    for z_row, y_row in zip(logits.tolist(), targets.tolist(), strict=True):
        for z, y in zip(z_row, y_row, strict=True):
            p = 1 / (1 + math.exp(-z))
            total -= y * math.log(p) + (1 - y) * math.log(1 - p)
            count += 1
    return total / count


def slow_entropy(logits):
    total = 0.0
    for row in logits.tolist():
        for z in row:
            p = 1 / (1 + math.exp(-z))
            total += p * math.log(p)
    return total / len(logits)


@pytest.mark.parametrize("entropy_reduction", ["class_sum", "mean"])
@pytest.mark.parametrize("entropy_classes", ["old", "seen"])
@pytest.mark.parametrize("head", ["gcn", "linear"])
def test_loss_follows_the_formula(vector_benchmark, entropy_classes, head, entropy_reduction):
    benchmark = vector_benchmark("B2-C1")
    torch.manual_seed(0)
    model = build_model("vector", in_features=6, head=head)
    recorder = Recorder()
    strategy = CSC(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.3),
        classification_weight=0.3,
        entropy_weight=0.1,
        entropy_classes=entropy_classes,
        entropy_reduction=entropy_reduction,
        train_mb_size=8,
        plugins=[recorder],
        evaluator=None,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    assert {step[0] for step in recorder.steps} == {0, 1, 2}
    for t, loss, logits, targets, teacher in recorder.steps:
        lo, hi = benchmark.scenario.ranges[t]
        expected = slow_bce(logits[:, lo:hi], targets[:, lo:hi])
        if t:
            expected = 0.3 * expected + 0.7 * slow_bce(logits[:, :lo], teacher.sigmoid())
            width = lo if entropy_classes == "old" else hi
            entropy = slow_entropy(logits[:, :width])
            expected += 0.1 * entropy / (width if entropy_reduction == "mean" else 1)
        assert loss == pytest.approx(expected, rel=1e-4)
    assert set(strategy.csc.terms.last) == {"cls", "akd", "entropy"}


def test_entropy_penalty_is_smallest_where_p_is_one_over_e():
    logits = torch.linspace(-4, 4, 401)[:, None]
    values = torch.stack([entropy_penalty(z[None]) for z in logits])
    assert logits[values.argmin()].sigmoid().item() == pytest.approx(1 / math.e, abs=0.01)
