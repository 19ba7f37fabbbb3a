import copy
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from rebll_avalanche.models import build_model
from rebll_avalanche.models.cross_attention import GrowingCrossAttention


def grown(*totals: int, grid: int = 2) -> GrowingCrossAttention:
    torch.manual_seed(0)
    head = GrowingCrossAttention(6, dim=8, num_heads=2, grid=grid).double()
    for total in totals:
        head.grow(total)
    return head


def vary(head: GrowingCrossAttention) -> None:
    """Make every parameter matter: fresh tokens are tiny, fresh norms trivial."""
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.uniform_(-1, 1)


def slow_norm(vector: Tensor, norm: torch.nn.LayerNorm | None = None) -> Tensor:
    mean = vector.sum() / len(vector)
    variance = ((vector - mean) ** 2).sum() / len(vector)
    scaled = (vector - mean) / math.sqrt(float(variance) + 1e-5)
    return scaled if norm is None else scaled * norm.weight + norm.bias


def slow_embedding(head: GrowingCrossAttention, image: Tensor, token: Tensor) -> Tensor:
    """One experience's embedding of one image ``[channels, h, w]``: the sequence spelled out."""
    shared = head.attention
    sequence = [shared.shared_token[0], token]
    height, width = image.shape[1:]
    for row in range(height):
        for column in range(width):
            patch = shared.project.weight[:, :, 0, 0] @ image[:, row, column] + shared.project.bias
            sequence.append(patch + shared.positions[0, :, row, column])
    normed = [slow_norm(item, shared.norm1) for item in sequence]
    size = 8 // shared.num_heads
    attended = []
    for h in range(shared.num_heads):
        part = slice(h * size, (h + 1) * size)
        query = (shared.query.weight @ normed[0])[part]
        scores = [
            math.exp(float(query @ (shared.key.weight @ item)[part]) / math.sqrt(size))
            for item in normed
        ]
        values = [(shared.value.weight @ item)[part] for item in normed]
        total = sum(scores)
        attended.append(sum(s / total * v for s, v in zip(scores, values, strict=True)))
    a = shared.shared_token[0] + shared.output.weight @ torch.cat(attended) + shared.output.bias
    hidden = shared.expand.weight @ slow_norm(a, shared.norm2) + shared.expand.bias
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
    return a + shared.contract.weight @ hidden + shared.contract.bias


@torch.no_grad()
def test_logits_follow_the_formula():
    head = grown(2, 5)
    vary(head)
    maps = torch.randn(2, 6, 2, 2, dtype=torch.float64)
    tokens = [head.old_tokens[0], head.token[0]]
    embeddings = torch.stack(
        [torch.stack([slow_embedding(head, image, token) for token in tokens]) for image in maps]
    )
    torch.testing.assert_close(head.embed(maps), embeddings)
    expected = []
    for image in embeddings:
        first, second = slow_norm(image[0]), slow_norm(image[1])
        old = [row @ first + b for row, b in zip(head.old_weight, head.old_bias, strict=True)]
        new = [row @ second + b for row, b in zip(head.weight, head.bias, strict=True)]
        expected.append(torch.stack(old + new))
    torch.testing.assert_close(head(maps), torch.stack(expected))


def test_growth_does_not_move_the_old_logits():
    head = grown(2)
    vary(head)
    maps = torch.randn(3, 6, 2, 2, dtype=torch.float64)
    before, token = head(maps), head.token.detach().clone()
    head.grow(5)
    head.grow(5)
    assert head.num_classes == 5
    assert head.session_sizes.tolist() == [2, 3]
    assert torch.equal(head.old_tokens, token)
    torch.testing.assert_close(head(maps)[:, :2], before, rtol=1e-12, atol=1e-12)


def test_old_tokens_and_classifiers_are_frozen_and_the_rest_learns():
    head = grown(2, 4, 5)
    head(torch.randn(3, 6, 2, 2, dtype=torch.float64)).square().sum().backward()
    frozen = {"old_tokens", "old_weight", "old_bias"}
    for name, value in head.named_parameters():
        if name in frozen:
            assert not value.requires_grad
            assert value.grad is None
        else:
            assert value.grad is not None, name
            assert value.grad.abs().sum() > 0, name


def test_positions_are_interpolated_to_other_map_sizes():
    head = grown(2, grid=3)
    vary(head)
    maps = torch.randn(2, 6, 5, 4, dtype=torch.float64)
    resized = copy.deepcopy(head)
    resized.attention.positions = torch.nn.Parameter(
        interpolate(head.attention.positions.detach(), (5, 4), mode="bilinear", align_corners=False)
    )
    assert torch.equal(head(maps), resized(maps))
    assert head(torch.randn(2, 6, dtype=torch.float64)).shape == (2, 2)


def test_activation_maps_split_the_attended_value_over_the_patches():
    head = grown(2, 3)
    vary(head)
    maps = torch.randn(2, 6, 2, 2, dtype=torch.float64)
    found = head.class_activation_maps(maps)
    assert found.shape == (2, 3, 2, 2)
    # What is not the patches' comes from the shared token, the experience's token and biases.
    tokens = torch.cat([head.old_tokens, head.token])
    scores, shared, own = head.attention.attend(head.attention.patches(maps), tokens)
    rest = scores[..., :1] * shared[:, :, :1] + scores[..., -1:] * own
    whole = scores[..., :-1] @ shared + scores[..., -1:] * own
    difference = (whole - rest).transpose(1, 2).flatten(2) @ head.attention.output.weight.T
    weights = [head.old_weight[0], head.old_weight[1], head.weight[0]]
    for c, session in enumerate((0, 0, 1)):
        torch.testing.assert_close(found[:, c].sum(dim=(1, 2)), difference[:, session] @ weights[c])


def test_copy_and_state_of_any_width():
    head = grown(2, 5)
    maps = torch.randn(2, 6, 2, 2, dtype=torch.float64)
    assert torch.equal(copy.deepcopy(head)(maps), head(maps))
    for widths in ((), (3,), (2, 4, 7)):
        other = grown(*widths)
        other.load_state_dict(head.state_dict())
        assert torch.equal(other(maps), head(maps))
        assert not other.old_weight.requires_grad
        assert other.weight.requires_grad


def test_heads_must_divide_the_token():
    with pytest.raises(ValueError, match="num_heads must divide dim"):
        GrowingCrossAttention(6, dim=9, num_heads=2)


def test_built_by_name_on_a_backbone():
    model = build_model("small_cnn", head="cross_attention", dim=16, num_heads=2)
    model.head.grow(4)
    assert model(torch.rand(2, 3, 48, 48)).shape == (2, 4)
