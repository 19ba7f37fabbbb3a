"""The metrics against the evaluation code of CSC, KRT and L3A."""

import pytest
import torch

from rebll_avalanche.metrics.functional import average_precision, multilabel_scores


@pytest.fixture
def numbers(peer):
    return peer("metrics")


@pytest.mark.parametrize("who", ["csc", "krt", "l3a", "stable"])
def test_average_precision(numbers, near, who):
    ours = average_precision(numbers["plain_scores"], numbers["plain_labels"].double())
    near(ours, numbers[f"plain_{who}_ap"], 1e-8)
    near(100 * ours.mean(), numbers[f"plain_{who}_map"], 1e-6)


def test_equal_scores_in_a_stable_order(numbers, near):
    """Theirs depend on an unstable sort; with a stable one they are ours."""
    scores, labels = numbers["ties_scores"], numbers["ties_labels"].double()
    near(average_precision(scores, labels, ties="lineage"), numbers["ties_stable_ap"], 1e-9)


def test_a_class_without_positives_is_left_out_not_zero(numbers, near):
    scores, labels = numbers["empty_scores"], numbers["empty_labels"].double()
    ours, theirs = average_precision(scores, labels), numbers["empty_stable_ap"]
    assert ours[3].isnan()
    assert theirs[3] == 0
    others = torch.arange(8) != 3
    near(ours[others], theirs[others], 1e-8)


@pytest.mark.parametrize("who", ["csc", "krt", "l3a", "l3a_sk"])
@pytest.mark.parametrize("kind", ["plain", "ties", "empty"])
@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_decisions(numbers, near, who, kind, threshold):
    scores, labels = numbers[f"{kind}_scores"], numbers[f"{kind}_labels"].double()
    found = multilabel_scores(scores, labels, [threshold]).as_dict()
    ours = [100 * found[f"{name}@{threshold:g}"] for name in ("CP", "CR", "CF1", "OP", "OR", "OF1")]
    near(torch.tensor(ours), numbers[f"{kind}_{who}_at_{round(10 * threshold)}"], 1e-5)
