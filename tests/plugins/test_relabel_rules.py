"""Labels from probabilities, by each of the rules."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch

from rebll_avalanche import RebLL, build_model
from rebll_avalanche.losses import asymmetric_bce
from rebll_avalanche.memory import Provenance
from rebll_avalanche.plugins.relabel_rules import Rule, StreamShares, class_bars, labels_from


def test_posterior_is_half_where_the_loss_does_not_care():
    """At the score that the rule begins to call present, present and absent labels pull equally hard."""
    exponent = 1.2 * math.log(20)
    scores = torch.linspace(0.01, 0.99, 981, dtype=torch.float64).unsqueeze(1)
    present = labels_from(scores, threshold=0.5, rule="posterior", exponent=exponent).flatten()
    first = int(present.argmax())
    assert 0 < first < len(scores) - 1
    assert bool(present[first:].all())
    logits = scores.logit().requires_grad_()
    pulls = []
    for label in (1.0, 0.0):
        targets = torch.full_like(logits, label)
        loss = asymmetric_bce(logits, targets, positive_exponent=exponent, reduction="sum")
        pulls.append(torch.autograd.grad(loss, logits)[0].flatten())
    balance = pulls[0] + pulls[1]  # the loss of an even chance falls with the score, then rises
    assert balance[first - 1] < 0 <= balance[first]
    assert scores[first] < 0.5


def test_without_asymmetry_the_posterior_is_the_score():
    said = torch.rand(20, 3)
    as_said = labels_from(said, threshold=0.8)
    assert torch.equal(labels_from(said, threshold=0.8, rule="posterior"), as_said)


def test_prevalence_takes_the_highest_of_each_class():
    said = torch.rand(30, 4, generator=torch.Generator().manual_seed(0))
    shares = torch.tensor([0.0, 0.1, 0.5, 1.0])
    labels = labels_from(said, threshold=0.8, rule="prevalence", shares=shares)
    for column, count in enumerate([0, 3, 15, 30]):
        highest = said[:, column].sort(descending=True).indices[:count]
        assert labels[:, column].nonzero().flatten().tolist() == highest.sort().values.tolist()
    same = torch.full((4, 1), 0.7)  # equal scores: still no more than the share
    assert (
        labels_from(same, threshold=0.8, rule="prevalence", shares=torch.tensor([0.5])).sum() == 2
    )
    with pytest.raises(ValueError, match="shares"):
        labels_from(said, threshold=0.8, rule="prevalence")


def test_shares_of_a_stream_survive_a_restart():
    shares = StreamShares()
    shares.add(torch.tensor([[1.0, 0.0, torch.nan], [0.0, 1.0, torch.nan]]))
    shares.add(torch.tensor([[torch.nan, torch.nan, 1.0], [torch.nan, torch.nan, 1.0]]))
    again = StreamShares()
    again.load_state_dict(shares.state_dict())
    assert again.of(slice(0, 3)).tolist() == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("rule", get_args(Rule))
def test_memory_is_filled_by_the_rule(rule, vector_benchmark):
    torch.manual_seed(0)
    model = build_model("vector", in_features=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    strategy = RebLL(model=model, optimizer=optimizer, mem_size=12, relabel_by=rule)
    benchmark = vector_benchmark()
    for experience in benchmark.train_stream:
        strategy.train(experience)
    memory = strategy.rebll.memory
    filled = memory.labels[memory.provenance >= Provenance.PREVIOUS_MODEL]
    assert len(filled)
    assert not filled.isnan().any()
    whole = ((filled == 0) | (filled == 1)).all()
    assert bool(whole) is (rule != "soft")
    strategy.train(benchmark.train_stream[0])  # replays whatever the labels are
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_bars_separate_each_class_best():
    """The cut with the largest variance between groups, found by trying them all."""
    said = torch.rand(25, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) ** 2
    bars = class_bars(said, highest=1.0)
    for column in range(3):
        ranked = sorted(said[:, column].tolist())
        spreads = {}
        for cut in range(1, 25):
            low, high = ranked[:cut], ranked[cut:]
            gap = sum(high) / len(high) - sum(low) / len(low)
            spreads[(ranked[cut - 1] + ranked[cut]) / 2] = len(low) * len(high) * gap**2
        best = max(spreads, key=lambda bar: spreads[bar])
        assert bars[column].item() == pytest.approx(max(best, 0.1))
    assert class_bars(said, highest=0.2).max() <= 0.2
    assert class_bars(said[:1], highest=0.4).tolist() == [0.4] * 3


def test_adaptive_labels_follow_the_class_and_leave_the_doubtful_unknown():
    # Shrunk scores, clear ones, and a class that no image has. What is nearest to a bar is doubtful.
    said = torch.tensor(
        [
            [0.45, 0.95, 0.03],
            [0.40, 0.90, 0.01],
            [0.02, 0.01, 0.02],
            [0.01, 0.05, 0.01],
            [0.15, 0.05, 0.02],
        ]
    )
    labels = labels_from(said, rule="adaptive", threshold=0.5)
    nan = torch.nan
    expected = torch.tensor([[1, 1, 0], [nan, 1, 0], [0, 0, 0], [0, 0, 0], [nan, 0, 0]])
    assert torch.equal(labels.nan_to_num(7), expected.nan_to_num(7))
