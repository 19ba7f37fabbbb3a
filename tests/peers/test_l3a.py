"""L3A's analytic head against scut-zx/L3A, from float64 sums."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.models.expanded import ExpandedLinear
from rebll_avalanche.strategies.closed_form import L3A


@pytest.fixture
def numbers(peer):
    return peer("l3a_head")


@pytest.mark.parametrize("run", ["g1000", "g1"])
def test_three_experiences(numbers, near, run):
    """Class counts, sums, weights and logits after each of them."""
    head = ExpandedLinear(8, power=1.0, random_features=16)
    head.projection = numbers["projection"]
    model = MultiLabelModel(nn.Identity(), head).eval()
    gamma, threshold = float(numbers[f"{run}_gamma"]), float(numbers["threshold"])
    plugin = L3A(model=model, gamma=gamma, threshold=threshold).closed_form
    for number, (old, seen) in enumerate(numbers["task_bounds"].tolist()):
        inputs, labels = numbers[f"inputs_{number}"], numbers[f"labels_{number}"].clone()
        labels[:, :old] = labels[:, seen:] = torch.nan
        head.grow(seen)
        dataset = TensorDataset(inputs)
        dataset.targets = labels
        experience = SimpleNamespace(
            dataset=dataset,
            current_experience=number,
            previous_classes=range(old),
            classes_seen_so_far=range(seen),
        )
        strategy = SimpleNamespace(model=model, experience=experience)
        plugin.before_training_exp(strategy)
        for rows in torch.arange(len(inputs)).split(int(numbers["batch_size"])):
            plugin.observe(model, inputs[rows], labels[rows])
        plugin.after_training_exp(strategy)
        near(plugin.learner.class_counts, numbers[f"class_counts_{number}"], 0)
        near(plugin.sums.gram[:-1, :-1], numbers[f"{run}_gram_{number}"], 1e-3)  # of 7000
        # Pseudo-labels are in the weights: one that differs moves them by far more.
        near(plugin.scores().weight.T, numbers[f"{run}_weight64_{number}"], 2e-7)
        near(model(numbers["test_inputs"]), numbers[f"{run}_test_logits_{number}"], 1e-6)
