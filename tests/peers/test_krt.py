"""KRT's head and loss against witdsl/KRT-MLCIL, on the release's own weights."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from rebll_avalanche.models.cross_attention import GrowingCrossAttention
from rebll_avalanche.plugins.krt import asl_loss

# Our parameter of the attention, the release's.
NAMES = {
    "project.weight": "last_proj.weight",
    "project.bias": "last_proj.bias",
    "norm1.weight": "tab.norm1.weight",
    "norm1.bias": "tab.norm1.bias",
    "query.weight": "tab.attn.q.weight",
    "key.weight": "tab.attn.k.weight",
    "value.weight": "tab.attn.v.weight",
    "output.weight": "tab.attn.proj.weight",
    "output.bias": "tab.attn.proj.bias",
    "norm2.weight": "tab.norm2.weight",
    "norm2.bias": "tab.norm2.bias",
    "expand.weight": "tab.mlp.fc1.weight",
    "expand.bias": "tab.mlp.fc1.bias",
    "contract.weight": "tab.mlp.fc2.weight",
    "contract.bias": "tab.mlp.fc2.bias",
}


@pytest.fixture
def numbers(peer):
    return peer("krt_head")


def positions(values: torch.Tensor) -> torch.Tensor:
    """``[1, patches, dim]`` there, ``[1, dim, side, side]`` here."""
    return values.transpose(1, 2).unflatten(2, (5, 5))


def as_released(numbers, who: str, sizes: list[int]) -> GrowingCrossAttention:
    head = GrowingCrossAttention(20, dim=32, num_heads=int(numbers["num_heads"]), grid=5)
    for experience in range(len(sizes)):
        head.grow(sum(sizes[: experience + 1]))
    state = {f"attention.{ours}": numbers[f"{who}.{theirs}"] for ours, theirs in NAMES.items()}
    state["attention.positions"] = positions(numbers[f"{who}.pos_embed"])
    state["attention.shared_token"] = numbers[f"{who}.cls_token"][0]
    tokens, weights, biases = [], [], []
    for experience in range(len(sizes)):
        place = f"{who}.head.{experience}"
        rows = numbers[f"{place}.head.weight"]
        tokens.append(numbers[f"{who}.task_tokens.{experience}"][0])
        # Our rows absorb the scale and shift of the norm before them.
        weights.append(rows * numbers[f"{place}.norm.weight"])
        biases.append(numbers[f"{place}.head.bias"] + rows @ numbers[f"{place}.norm.bias"])
    for name, values in (("token", tokens), ("weight", weights), ("bias", biases)):
        old = "old_tokens" if name == "token" else f"old_{name}"
        state[old], state[name] = torch.cat(values[:-1]), values[-1]
    state["session_sizes"] = torch.tensor(sizes)
    head.load_state_dict(state)
    return head.eval()


def test_prediction(numbers, near):
    sizes = numbers["session_sizes"].tolist()
    for who, prefix, grown in (("student", "", sizes), ("teacher", "teacher_", sizes[:-1])):
        head = as_released(numbers, who, grown)
        near(head.embed(numbers["map"]), numbers[f"{prefix}embeddings"], 5e-6)
        near(head(numbers["map"]), numbers[f"{prefix}logits"], 5e-6)


def test_loss_and_gradients(numbers, near):
    sizes = numbers["session_sizes"].tolist()
    old, seen = sum(sizes[:-1]), sum(sizes)
    student = as_released(numbers, "student", sizes)
    teacher = as_released(numbers, "teacher", sizes[:-1])
    feature_map = numbers["map"].clone().requires_grad_()
    embeddings = student.embed(feature_map)
    logits = student.classify(embeddings)
    with torch.no_grad():
        earlier = teacher.embed(numbers["map"])
        pseudo = (teacher.classify(earlier).sigmoid() > float(numbers["threshold"])).float()
    targets = torch.cat([pseudo, numbers["labels"][:, old:]], dim=1)
    near(targets, numbers["targets"], 0)
    classification = asl_loss(logits, targets).sum()
    kept = embeddings[:, : len(sizes) - 1].flatten(1)
    moved = (1 - cosine_similarity(kept, earlier.flatten(1))).mean()
    token = float(numbers["lambda_token"]) * (seen / (seen - old)) ** 0.5 * moved
    near(classification, numbers["loss_classification"], 2e-5)
    near(token, numbers["loss_token"], 2e-5)
    near(classification + token, numbers["loss_total"], 2e-5)
    (classification + token).backward()
    assert feature_map.grad is not None
    near(feature_map.grad, numbers["grad_map"], 2e-5)
    for ours, theirs in NAMES.items():
        near(student.attention.get_parameter(ours).grad, numbers[f"grad.{theirs}"], 5e-5)
    near(student.attention.positions.grad, positions(numbers["grad.pos_embed"]), 5e-5)
    near(student.attention.shared_token.grad, numbers["grad.cls_token"][0], 5e-5)
    near(student.token.grad, numbers["grad.task_tokens.2"][0], 5e-5)
    near(student.bias.grad, numbers["grad.head.2.head.bias"], 5e-5)


def test_gradient_of_squared_logits(numbers, near):
    head = as_released(numbers, "student", numbers["session_sizes"].tolist())
    feature_map = numbers["map"].clone().requires_grad_()
    head(feature_map).square().sum().backward()
    assert feature_map.grad is not None
    near(feature_map.grad, numbers["square_grad_map"], 2e-5)
