import copy
import math

import torch
from torch import Tensor

from rebll_avalanche.models import build_model
from rebll_avalanche.models.gcn import GrowingGCN


def leaky(value: float) -> float:
    return value if value > 0 else 0.2 * value


@torch.no_grad()
def slow_logits(head: GrowingGCN, image: Tensor) -> list[float]:
    """The formula for one image ``[channels, positions]``, with loops (batch norm in evaluation)."""
    classes, hidden = head.num_classes, head.hidden
    channels, positions = image.shape

    def affine(layer: torch.nn.Linear, vector: list[float]) -> list[float]:
        return [
            sum(float(w) * v for w, v in zip(row, vector, strict=True)) + float(b)
            for row, b in zip(layer.weight, layer.bias, strict=True)
        ]

    cam = [
        [
            sum(float(head.cam_weight[c, d] * image[d, p]) for d in range(channels))
            for p in range(positions)
        ]
        for c in range(classes)
    ]
    projection = head.project.weight[:, :, 0, 0]
    projected = [
        [
            sum(float(projection[k, d] * image[d, p]) for d in range(channels))
            + float(head.project.bias[k])
            for p in range(positions)
        ]
        for k in range(hidden)
    ]
    nodes = []
    for c in range(classes):
        exponentials = [math.exp(value) for value in cam[c]]
        mask = [value / sum(exponentials) for value in exponentials]
        nodes.append([sum(row[p] * mask[p] for p in range(positions)) for row in projected])

    static = []
    for c in range(classes):
        neighbours = [
            leaky(sum(float(head.static_graph[c, j]) * nodes[j][k] for j in range(classes)))
            for k in range(hidden)
        ]
        update = [leaky(value) for value in affine(head.static_weight, neighbours)]
        static.append([nodes[c][k] + update[k] for k in range(hidden)])

    mean = [sum(node[k] for node in static) / classes for k in range(hidden)]
    norm = head.global_norm
    summary = [
        leaky(
            (value - float(norm.running_mean[k]))
            / math.sqrt(float(norm.running_var[k]) + norm.eps)
            * float(norm.weight[k])
            + float(norm.bias[k])
        )
        for k, value in enumerate(affine(head.global_weight, mean))
    ]
    logits = []
    for j in range(classes):
        both = summary + static[j]
        graph_column = []
        for c in range(classes):
            score = sum(float(head.graph_weight[c, k]) * both[k] for k in range(2 * hidden))
            graph_column.append(1 / (1 + math.exp(-score - float(head.graph_bias[c]))))
        mixed = [
            leaky(sum(static[c][k] * graph_column[c] for c in range(classes)))
            for k in range(hidden)
        ]
        node = [leaky(value) for value in affine(head.dynamic_weight, mixed)]
        second = sum(
            float(head.node_weight[j, k]) * (nodes[j][k] + node[k]) for k in range(hidden)
        ) + float(head.node_bias[j])
        logits.append((max(cam[j]) + second) / 2)
    return logits


def grown(*totals: int, hidden: int = 4) -> GrowingGCN:
    torch.manual_seed(0)
    head = GrowingGCN(6, hidden=hidden).double()
    for total in totals:
        head.grow(total)
    return head


def test_logits_follow_the_formula():
    head = grown(3, 5).eval()
    head.global_norm.running_mean.uniform_(-1, 1)
    head.global_norm.running_var.uniform_(0.5, 2)
    maps = torch.randn(2, 6, 2, 3, dtype=torch.float64)
    expected = [slow_logits(head, image.flatten(1)) for image in maps]
    torch.testing.assert_close(head(maps), torch.tensor(expected, dtype=torch.float64))


def test_growth_keeps_every_old_block():
    head = grown(2)
    before = {name: value.detach().clone() for name, value in head.named_parameters()}
    maps = torch.randn(3, 6, 4, 4, dtype=torch.float64)
    old_maps = head.class_activation_maps(maps)
    head.grow(5)
    assert head.num_classes == 5
    for name, value in head.named_parameters():
        corner = value[tuple(slice(0, size) for size in before[name].shape)]
        assert torch.equal(corner, before[name]), name
    assert head.static_graph.shape == (5, 5)
    assert head.graph_bias.shape == head.node_bias.shape == (5,)
    new_maps = head.class_activation_maps(maps)
    assert new_maps.shape == (3, 5, 4, 4)
    torch.testing.assert_close(new_maps[:, :2], old_maps, rtol=1e-12, atol=1e-12)


def test_every_parameter_learns():
    head = grown(2, 4).train()
    head(torch.randn(3, 6, 2, 2, dtype=torch.float64)).square().sum().backward()
    for name, value in head.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().sum() > 0, name


def test_a_lone_image_can_be_trained_on():
    head = grown(3).train()
    before = head.global_norm.running_mean.clone()
    assert torch.isfinite(head(torch.randn(1, 6, 2, 2, dtype=torch.float64))).all()
    assert torch.equal(head.global_norm.running_mean, before)


def test_vectors_are_maps_of_one_position():
    head = grown(3).eval()
    vectors = torch.randn(2, 6, dtype=torch.float64)
    assert torch.equal(head(vectors), head(vectors[:, :, None, None]))


def test_copy_and_state_of_any_width():
    head = grown(2, 5).eval()
    maps = torch.randn(2, 6, 2, 2, dtype=torch.float64)
    assert torch.equal(copy.deepcopy(head)(maps), head(maps))
    for width in (0, 3, 7):
        other = grown(*([width] if width else [])).eval()
        other.load_state_dict(head.state_dict())
        assert torch.equal(other(maps), head(maps))


def test_built_by_name_on_a_backbone():
    model = build_model("small_cnn", head="gcn")
    model.head.grow(4)
    images = torch.rand(2, 3, 48, 48)
    assert model(images).shape == (2, 4)
    assert model.head.hidden == model.head.in_features // 2
    assert model.head.class_activation_maps(model.features(images)).shape == (2, 4, 6, 6)
