"""CSC's network and loss against Kaile-Du/CSC, on the release's own weights."""

from types import SimpleNamespace

import pytest
import torch

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.models.gcn import GrowingGCN
from rebll_avalanche.plugins.csc import CSCPlugin

# Our parameter, the release's.
NAMES = {
    "project.weight": "conv_transform.weight",
    "project.bias": "conv_transform.bias",
    "static_weight.weight": "gcn.general_weight.0.weight",
    "static_weight.bias": "gcn.general_weight.0.bias",
    "global_weight.weight": "gcn.conv_global.weight",
    "global_weight.bias": "gcn.conv_global.bias",
    "global_norm.weight": "gcn.bn_global.weight",
    "global_norm.bias": "gcn.bn_global.bias",
    "dynamic_weight.weight": "gcn.specific_weight.weight",
    "dynamic_weight.bias": "gcn.specific_weight.bias",
    "cam_weight": "fc.weight",
    "static_graph": "gcn.general_adj.0.weight",
    "graph_weight": "gcn.conv_create_co_mat.weight",
    "graph_bias": "gcn.conv_create_co_mat.bias",
    "node_weight": "last_linear.weight",
    "node_bias": "last_linear.bias",
}
STATISTICS = {
    "global_norm.running_mean": "gcn.bn_global.running_mean",
    "global_norm.running_var": "gcn.bn_global.running_var",
    "global_norm.num_batches_tracked": "gcn.bn_global.num_batches_tracked",
}


@pytest.fixture
def numbers(peer):
    return peer("csc_gcn")


def as_released(numbers, who: str) -> GrowingGCN:
    head = GrowingGCN(24, hidden=12)
    head.grow(len(numbers[f"{who}.fc.weight"]))
    own = head.state_dict()
    head.load_state_dict(
        {
            ours: numbers[f"{who}.{theirs}"].reshape(own[ours].shape)
            for ours, theirs in (NAMES | STATISTICS).items()
        }
    )
    return head.eval()


@pytest.mark.parametrize(("who", "prefix"), [("student", ""), ("teacher", "teacher_")])
def test_prediction(numbers, near, who, prefix):
    head = as_released(numbers, who)
    first = head.class_activation_maps(numbers["map"]).amax(dim=(2, 3))
    near(first, numbers[f"{prefix}out1"], 1e-6)
    near(head(numbers["map"]), numbers[f"{prefix}logits"], 1e-6)


@pytest.mark.parametrize(("training", "prefix"), [(False, "square_"), (True, "train_")])
def test_gradient_of_squared_logits(numbers, near, training, prefix):
    head, feature_map = as_released(numbers, "student"), numbers["map"].requires_grad_()
    logits = head.train(training)(feature_map)
    logits.square().sum().backward()
    assert feature_map.grad is not None
    near(feature_map.grad, numbers[f"{prefix}grad_map"], 2e-6)
    if training:
        near(logits, numbers["train_logits"], 1e-6)
        near(head.global_norm.running_mean, numbers["train_bn_running_mean"], 1e-6)
        near(head.global_norm.running_var, numbers["train_bn_running_var"], 1e-6)


def test_a_step_of_the_second_experience(numbers, near):
    """The plugin's terms, with the teacher cut off as it should be."""
    old, seen = numbers["classes"].tolist()
    student = as_released(numbers, "student")
    feature_map = numbers["map"].requires_grad_()
    plugin = CSCPlugin(
        classification_weight=float(numbers["alpha"]),
        entropy_weight=-float(numbers["beta"]),
        entropy_classes="seen",
    )
    plugin.teacher.model = as_released(numbers, "teacher")
    targets = numbers["labels"].clone()
    targets[:, :old] = torch.nan
    strategy = SimpleNamespace(
        is_training=True,
        model=student,
        experience=SimpleNamespace(
            dataset=SimpleNamespace(targets=targets),
            previous_classes=list(range(old)),
            classes_seen_so_far=list(range(seen)),
        ),
        _criterion=PartialLabelBCE(),
        mb_x=feature_map,
        mb_y=targets,
    )
    plugin.before_training_exp(strategy)
    strategy.mb_output = student(feature_map)
    strategy.loss = strategy._criterion(strategy.mb_output, targets)
    plugin.before_backward(strategy)
    strategy.loss.backward()
    means = plugin.terms.means()
    near(means["cls"], numbers["loss_classification"], 1e-6)
    near(means["akd"], numbers["loss_distillation"], 1e-6)
    # The release takes log(p + 1e-5).
    near(plugin.entropy_weight * means["entropy"], numbers["loss_entropy"], 1e-5)
    near(strategy.loss, numbers["loss_total"], 1e-5)
    assert feature_map.grad is not None
    near(feature_map.grad, numbers["grad_map"], 1e-6)
    for ours, theirs in NAMES.items():
        parameter = student.get_parameter(ours)
        near(parameter.grad, numbers[f"grad.{theirs}"].reshape(parameter.shape), 1e-6)


def test_growth_keeps_what_the_release_keeps(numbers, near):
    """And the old biases of graph and nodes, which the release draws anew."""
    teacher, expanded = as_released(numbers, "teacher"), as_released(numbers, "expanded")
    before = {name: value.detach().clone() for name, value in teacher.named_parameters()}
    teacher.grow(10)
    for name in ("cam_weight", "static_graph", "graph_weight", "node_weight"):
        corner = tuple(slice(0, size) for size in before[name].shape)
        near(teacher.get_parameter(name)[corner], expanded.get_parameter(name).detach()[corner], 0)
    for name in ("graph_bias", "node_bias"):
        near(teacher.get_parameter(name)[:6], before[name], 0)
