import copy
import math

import pytest
import torch

from rebll_avalanche.models import build_model
from rebll_avalanche.models.agcn import GrowingAGCN, normalised_graph

NAN = float("nan")


def grown(*totals: int, **options: object) -> GrowingAGCN:
    torch.manual_seed(0)
    head = GrowingAGCN(6, hidden=5, embedding=4, **options).double()
    for total in totals:
        head.grow(total)
    return head


def slow_graph(correlation: list[list[float]], threshold: list[list[float]]) -> list[list[float]]:
    n = len(correlation)
    weights = [[1.0 if i == j else 0.0 for j in range(n)] for i in range(n)]
    for j in range(n):
        neighbours = [i for i in range(n) if i != j and correlation[i][j] >= threshold[i][j]]
        for i in neighbours:
            weights[i][j] = 0.25 / len(neighbours)
    sums = [sum(row) for row in weights]
    return [
        [weights[j][i] / math.sqrt(sums[i]) / math.sqrt(sums[j]) for j in range(n)]
        for i in range(n)
    ]


def test_graph_is_binarised_reweighted_and_normalised():
    generator = torch.Generator().manual_seed(1)
    correlation = torch.rand(6, 6, generator=generator, dtype=torch.float64)
    threshold = torch.rand(6, 6, generator=generator, dtype=torch.float64)
    expected = torch.tensor(slow_graph(correlation.tolist(), threshold.tolist()))
    torch.testing.assert_close(normalised_graph(correlation, threshold).float(), expected.float())


def test_correlations_of_one_experience_are_conditional_frequencies():
    head = grown(3)
    targets = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=torch.float64)
    head.observe(targets[:1])
    head.observe(targets[1:])
    for i in range(3):
        for j in range(3):
            both = sum(int(row[i] == 1 and row[j] == 1) for row in targets)
            assert head.correlation[i, j] == pytest.approx(both / targets[:, j].sum().item())


def test_correlations_across_experiences_use_soft_labels_and_bayes():
    head = grown(2)
    head.observe(torch.tensor([[1, 1], [1, 0]], dtype=torch.float64))
    old_block = head.correlation.clone()
    head.grow(5)
    generator = torch.Generator().manual_seed(2)
    soft = torch.rand(8, 2, generator=generator, dtype=torch.float64)
    new = torch.randint(0, 2, (8, 3), generator=generator).double()
    targets = torch.cat([torch.full((8, 2), NAN, dtype=torch.float64), new], dim=1)
    for start in (0, 3):
        rows = slice(start, 3 if start == 0 else 8)
        head.observe(targets[rows], soft[rows])
    assert torch.equal(head.correlation[:2, :2], old_block)
    for i in range(2):
        for j in range(3):
            joint = sum(float(soft[x, i] * new[x, j]) for x in range(8))
            forward = joint / float(new[:, j].sum())  # P(old i | new j)
            backward = forward * float(new[:, j].sum()) / float(soft[:, i].sum())
            assert head.correlation[i, 2 + j] == pytest.approx(forward)
            assert head.correlation[2 + j, i] == pytest.approx(backward)


def test_images_without_current_labels_are_not_counted():
    head = grown(2)
    targets = torch.tensor([[1, 1], [NAN, NAN], [1, 0]], dtype=torch.float64)
    head.observe(targets)
    assert head.alone.tolist() == [2, 1]


def test_probabilities_of_old_classes_are_required():
    head = grown(2, 3)
    with pytest.raises(ValueError, match="2 earlier classes"):
        head.observe(torch.ones(1, 3, dtype=torch.float64))


def test_thresholds_differ_within_and_across_experiences():
    head = grown(2, 4, same_threshold=0.4, cross_threshold=0.3)
    head.correlation.fill_(0.35)
    edges = head.graph() > 0
    edges.fill_diagonal_(False)
    assert edges[:2, 2:].all()
    assert edges[2:, :2].all()
    assert not edges[:2, :2].any()
    assert not edges[2:, 2:].any()


@torch.no_grad()
def test_logits_follow_the_formula():
    head = grown(2, 4)
    head.correlation.uniform_(0, 1)
    maps = torch.randn(2, 6, 2, 3, dtype=torch.float64)
    same = [0, 0, 1, 1]
    threshold = [[0.4 if same[i] == same[j] else 0.3 for j in range(4)] for i in range(4)]
    graph = slow_graph(head.correlation.tolist(), threshold)

    def layer(rows: list[list[float]], weight: torch.Tensor) -> list[list[float]]:
        mixed = [
            [sum(graph[i][j] * rows[j][k] for j in range(4)) for k in range(len(rows[0]))]
            for i in range(4)
        ]
        return [
            [
                sum(row[k] * float(weight[k, o]) for k in range(len(row)))
                for o in range(len(weight[0]))
            ]
            for row in mixed
        ]

    hidden = layer(head.embeddings.tolist(), head.first_weight)
    hidden = [[value if value > 0 else 0.2 * value for value in row] for row in hidden]
    nodes = layer(hidden, head.second_weight)
    expected = [
        [sum(max(image[d].flatten().tolist()) * node[d] for d in range(6)) for node in nodes]
        for image in maps
    ]
    torch.testing.assert_close(head(maps), torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(head.nodes(), torch.tensor(nodes, dtype=torch.float64))


def test_growth_keeps_parameters_and_old_logits():
    head = grown(3)
    head.observe(torch.tensor([[1, 1, 0], [1, 0, 1]], dtype=torch.float64))
    maps = torch.randn(2, 6, 2, 2, dtype=torch.float64)
    logits, embeddings = head(maps), head.embeddings.detach().clone()
    correlation = head.correlation.clone()
    head.grow(5)
    assert torch.equal(head.embeddings[:3], embeddings)
    assert torch.equal(head.correlation[:3, :3], correlation)
    torch.testing.assert_close(head(maps)[:, :3], logits, rtol=1e-12, atol=1e-12)
    assert head.class_activation_maps(maps).shape == (2, 5, 2, 2)


def test_gradients_reach_layers_and_learned_embeddings():
    head = grown(2, 4)
    head(torch.randn(3, 6, 2, 2, dtype=torch.float64)).square().sum().backward()
    for name, value in head.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().sum() > 0, name


def test_word_vectors_replace_learned_embeddings():
    words = torch.randn(4, 7, dtype=torch.float64)
    head = grown(3, word_vectors=words)
    assert torch.equal(head.embeddings, words[:3])
    head(torch.randn(2, 6, 2, 2, dtype=torch.float64)).sum().backward()
    assert head.embeddings.grad is None
    assert head.first_weight.grad is not None
    with pytest.raises(ValueError, match="word_vectors has 4 rows"):
        head.grow(5)


def test_copy_and_state_of_any_width():
    head = grown(2, 4)
    head.observe(torch.tensor([[NAN, NAN, 1, 1]]).double(), torch.ones(1, 2).double())
    maps = torch.randn(2, 6, 2, 2, dtype=torch.float64)
    assert torch.equal(copy.deepcopy(head)(maps), head(maps))
    for widths in ((), (3,), (2, 4, 6)):
        other = grown(*widths)
        other.load_state_dict(head.state_dict())
        assert torch.equal(other(maps), head(maps))
        other.grow(7)
        assert other.experience_of.tolist() == [0, 0, 1, 1, 2, 2, 2]


def test_built_by_name_on_a_backbone():
    model = build_model("small_cnn", head="agcn", hidden=8)
    model.head.grow(4)
    images = torch.rand(2, 3, 48, 48)
    assert model(images).shape == (2, 4)
    assert model.head.embeddings.shape == (4, 300)
