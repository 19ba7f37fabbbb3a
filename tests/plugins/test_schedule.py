"""The optimizer must not forget by itself, and each experience starts afresh."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.models import build_model
from rebll_avalanche.plugins import SchedulePlugin, build_optimizer
from rebll_avalanche.strategies import RebLL


def head_after_idle_steps(**options) -> float:
    """Norm of a head row, relative to its start, after steps in which it gets no gradient."""
    torch.manual_seed(0)
    model = build_model("vector", in_features=4)
    model.head.grow(2)
    optimizer = build_optimizer(model, lr=1e-3, **options)
    start = model.head.weight[0].norm().item()
    for _ in range(200):
        optimizer.zero_grad()
        model(torch.randn(3, 4))[:, 1].sum().backward()
        optimizer.step()
    return model.head.weight[0].norm().item() / start


def test_a_row_without_gradient_is_kept_by_default():
    assert head_after_idle_steps() == 1.0
    assert head_after_idle_steps(decay_head=True) > 0.99


def test_coupled_decay_erases_it():
    """The effect that looks like forgetting in Adam with L2; kept as a switch, off by default."""
    assert head_after_idle_steps(name="adam", decay_head=True) < 0.8


def test_groups():
    model = build_model("small_cnn")
    optimizer = build_optimizer(model, lr=0.1, weight_decay=0.3, backbone_lr_scale=0.5)
    by_parameter = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        group = by_parameter[id(parameter)]
        in_head = name.startswith("head.")
        assert group["lr"] == (0.1 if in_head else 0.05)
        assert group["weight_decay"] == (0.3 if parameter.ndim > 1 and not in_head else 0.0)
    with pytest.raises(ValueError, match="lion"):
        build_optimizer(model, name="lion")


class Rates(SupervisedPlugin):
    def __init__(self):
        super().__init__()
        self.rates = []
        self.moments = []

    def before_training_exp(self, strategy, **kwargs):
        self.rates.append([])
        self.moments.append(len(strategy.optimizer.state))

    def before_update(self, strategy, **kwargs):
        self.rates[-1].append(strategy.optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize("schedule", ["onecycle", "constant"])
def test_every_experience_has_its_own_schedule(vector_benchmark, schedule):
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    rates = Rates()
    strategy = RebLL(
        model=model,
        optimizer=build_optimizer(model, lr=0.1),
        train_mb_size=8,
        train_epochs=5,
        plugins=[SchedulePlugin(schedule=schedule, later_lr_scale=0.5), rates],
    )
    for experience in vector_benchmark().train_stream:
        strategy.train(experience)
    assert rates.moments == [0, 0, 0]
    peaks = [max(values) for values in rates.rates]
    assert peaks == pytest.approx([0.1, 0.05, 0.05])
    if schedule == "onecycle":
        for values in rates.rates:
            assert values[-1] < 1e-4 * max(values)
    else:
        assert all(len(set(values)) == 1 for values in rates.rates)


def test_the_backbone_can_slow_down_by_itself():
    """The head goes on at its rate; the backbone, after the first experience, at a tenth of it."""
    model = build_model("small_cnn")
    model.head.grow(3)
    optimizer = build_optimizer(model, lr=0.1, backbone_lr_scale=0.5)
    plugin = SchedulePlugin(schedule="constant", later_lr_scale=0.5, later_backbone_lr_scale=0.1)
    seen = []
    for number in range(3):
        plugin.before_training_exp(
            SimpleNamespace(
                optimizer=optimizer,
                experience=SimpleNamespace(current_experience=number),
                dataloader=range(4),
                train_epochs=1,
            )
        )
        seen.append({group["part"]: group["lr"] for group in optimizer.param_groups})
    assert seen[0] == pytest.approx({"head": 0.1, "backbone": 0.05})
    assert seen[1] == seen[2] == pytest.approx({"head": 0.05, "backbone": 0.0025})


@pytest.mark.parametrize("steps", range(1, 12))
def test_short_experiences_have_a_schedule_too(steps):
    model = build_model("vector", in_features=4)
    model.head.grow(2)
    optimizer = build_optimizer(model, lr=0.1)
    plugin = SchedulePlugin()
    strategy = SimpleNamespace(
        optimizer=optimizer,
        experience=SimpleNamespace(current_experience=0),
        dataloader=range(steps),
        train_epochs=1,
    )
    plugin.before_training_exp(strategy)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        plugin.after_training_iteration(strategy)
    assert all(0 < rate <= 0.1 + 1e-12 for rate in rates)
    if steps > 1:
        assert rates[-1] < rates[0]
