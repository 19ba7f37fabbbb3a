"""Metrics against scikit-learn, torchmetrics and loops written from the definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    precision_score,
    recall_score,
)
from torchmetrics.functional.classification import (
    multilabel_average_precision,
    multilabel_f1_score,
    multilabel_specificity,
)

from rebll_avalanche.metrics import (
    average_map,
    average_precision,
    decisions,
    forgetting,
    mean_average_precision,
    multilabel_scores,
)

NAN = float("nan")


def random_scores(
    samples: int = 60,
    classes: int = 7,
    levels: int | None = None,
    unknown: float = 0.0,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(samples, classes, generator=generator)
    if levels is not None:
        scores = (scores * levels).floor() / levels
    truth = (torch.rand(samples, classes, generator=generator) < 0.3).float()
    truth[torch.rand(samples, classes, generator=generator) < unknown] = NAN
    return scores, truth


def scikit_learn_ap(scores: torch.Tensor, truth: torch.Tensor) -> list[float]:
    values = []
    for s, y in zip(scores.T, truth.T, strict=True):
        known = ~y.isnan()
        positives = (y[known] == 1).any()
        values.append(average_precision_score(y[known], s[known]) if positives else NAN)
    return values


def count_by_hand(
    scores: torch.Tensor, truth: torch.Tensor, threshold: float
) -> list[tuple[int, int, int, int]]:
    counts = []
    for column in range(scores.shape[1]):
        tp = fp = fn = tn = 0
        for row in range(scores.shape[0]):
            label, decided = truth[row, column], bool(scores[row, column] > threshold)
            tp += int(label == 1 and decided)
            fp += int(label == 0 and decided)
            fn += int(label == 1 and not decided)
            tn += int(label == 0 and not decided)
        counts.append((tp, fp, fn, tn))
    return counts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("levels", [None, 1, 4])
@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_ap_equals_scikit_learn_also_under_ties(
    dtype: torch.dtype, levels: int | None, unknown: float
) -> None:
    scores, truth = random_scores(levels=levels, unknown=unknown)
    found = average_precision(scores.to(dtype), truth)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, scikit_learn_ap(scores, truth), rtol=0, atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    samples=st.integers(1, 12),
    classes=st.integers(1, 4),
)
def test_any_small_matrix_equals_scikit_learn_and_the_loop(
    data: st.DataObject, samples: int, classes: int
) -> None:
    shape = (samples, classes)
    levels = hypothesis_numpy.arrays(
        np.float32, shape, elements=st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])
    )
    labels = hypothesis_numpy.arrays(np.float32, shape, elements=st.sampled_from([0.0, 1.0, NAN]))
    scores, truth = torch.from_numpy(data.draw(levels)), torch.from_numpy(data.draw(labels))
    result = multilabel_scores(scores, truth, [0.8, 0.5])
    np.testing.assert_allclose(
        result.average_precision, scikit_learn_ap(scores, truth), rtol=0, atol=1e-12
    )
    for found in result.at_thresholds:
        counts = torch.stack(
            [
                found.true_positives,
                found.false_positives,
                found.false_negatives,
                found.true_negatives,
            ]
        )
        assert counts.T.tolist() == [
            list(row) for row in count_by_hand(scores, truth, found.threshold)
        ]
    shown = [value for value in result.as_dict().values() if not math.isnan(value)]
    assert all(0 <= value <= 1 for value in shown)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_of_samples_and_classes_does_not_matter(seed: int) -> None:
    scores, truth = random_scores(samples=20, classes=4, levels=5, unknown=0.2, seed=seed)
    rows = torch.randperm(20, generator=torch.Generator().manual_seed(seed))
    expected = multilabel_scores(scores, truth).as_dict()
    assert multilabel_scores(scores[rows], truth[rows]).as_dict() == pytest.approx(
        expected, nan_ok=True
    )
    assert multilabel_scores(scores.flip(1), truth.flip(1)).as_dict() == pytest.approx(
        expected, nan_ok=True
    )


def test_a_monotone_change_of_scores_keeps_ap() -> None:
    scores, truth = random_scores(unknown=0.1)
    logits = torch.logit(scores.double(), eps=1e-9)
    torch.testing.assert_close(
        average_precision(logits, truth), average_precision(scores.double(), truth)
    )


@pytest.mark.parametrize("threshold", [0.8, 0.5, 0.0])
def test_decisions_equal_a_loop_over_samples(threshold: float) -> None:
    scores, truth = random_scores(levels=10, unknown=0.2)
    truth[:, 3] = 0  # no positive: no hit, so everything is 0
    found = decisions(scores, truth, threshold)
    counts = count_by_hand(scores, truth, threshold)
    precision = [tp / (tp + fp) if tp else 0.0 for tp, fp, fn, tn in counts]
    recall = [tp / (tp + fn) if tp else 0.0 for tp, fp, fn, tn in counts]
    f1 = [2 * p * r / (p + r) if p else 0.0 for p, r in zip(precision, recall, strict=True)]
    assert found.precision.tolist() == pytest.approx(precision)
    assert found.recall.tolist() == pytest.approx(recall)
    assert found.f1.tolist() == pytest.approx(f1)
    assert found.class_precision == pytest.approx(sum(precision) / len(precision))
    assert found.class_recall == pytest.approx(sum(recall) / len(recall))
    assert found.class_f1 == pytest.approx(sum(f1) / len(f1))
    tp, fp, fn, tn = (sum(column) for column in zip(*counts, strict=True))
    assert found.overall_precision == pytest.approx(tp / (tp + fp))
    assert found.overall_recall == pytest.approx(tp / (tp + fn))
    assert found.overall_f1 == pytest.approx(2 * tp / (2 * tp + fp + fn))
    assert found.false_positive_rate == pytest.approx(fp / (fp + tn))


def test_decisions_equal_scikit_learn_and_torchmetrics() -> None:
    scores, truth = random_scores(samples=200)
    found, decided, labels = decisions(scores, truth, 0.8), (scores > 0.8).int(), truth.int()
    for average, values in {
        "macro": (found.class_precision, found.class_recall, found.class_f1),
        "micro": (found.overall_precision, found.overall_recall, found.overall_f1),
    }.items():
        expected = [
            f(labels, decided, average=average) for f in (precision_score, recall_score, f1_score)
        ]
        assert list(values) == pytest.approx(expected, abs=1e-12)
        theirs = multilabel_f1_score(scores, labels, num_labels=7, threshold=0.8, average=average)
        assert values[2] == pytest.approx(float(theirs), abs=1e-6)
    specificity = multilabel_specificity(
        scores, labels, num_labels=7, threshold=0.8, average="micro"
    )
    assert found.false_positive_rate == pytest.approx(1 - float(specificity), abs=1e-6)


def test_map_equals_torchmetrics() -> None:
    scores, truth = random_scores(samples=200, levels=50)
    theirs = multilabel_average_precision(scores, truth.int(), num_labels=7)
    assert mean_average_precision(scores, truth) == pytest.approx(float(theirs), abs=1e-6)


def test_a_score_at_the_threshold_is_not_above_it() -> None:
    scores = torch.tensor([[0.8], [0.8000001]])
    found = decisions(scores, torch.ones(2, 1), 0.8)
    assert found.true_positives.tolist() == [1]
    assert int((scores > 0.8).sum()) == 1


def test_cf1_is_the_mean_of_f1_not_the_f1_of_means() -> None:
    scores = torch.tensor([[0.9, 0.9], [0.9, 0.1]])
    truth = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    found = decisions(scores, truth, 0.5)
    assert (found.class_precision, found.class_recall) == (0.75, 0.75)
    assert found.class_f1 == pytest.approx(2 / 3)


def lineage_ap(scores: np.ndarray, truth: np.ndarray) -> float:
    total = hits = 0.0
    order = np.argsort(scores, kind="stable")[::-1]
    for place, index in enumerate(order, start=1):
        if truth[index] == 1:
            hits += 1
            total += hits / place
    return total / (hits + 1e-8)


@pytest.mark.parametrize("levels", [None, 3])
def test_the_lineage_variant_breaks_ties_by_place(levels: int | None) -> None:
    scores, truth = random_scores(levels=levels)
    expected = [lineage_ap(s, y) for s, y in zip(scores.T.numpy(), truth.T.numpy(), strict=True)]
    found = average_precision(scores, truth, ties="lineage")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    same = np.allclose(found, average_precision(scores, truth), rtol=0, atol=1e-6)
    assert same == (levels is None)


def test_the_lineage_variant_leaves_out_unknown_labels() -> None:
    scores, truth = random_scores(classes=1, levels=3, unknown=0.3)
    known = ~truth[:, 0].isnan()
    expected = lineage_ap(scores[known, 0].numpy(), truth[known, 0].numpy())
    found = average_precision(scores, truth, ties="lineage")
    assert found.item() == pytest.approx(expected, abs=1e-12)


def test_classes_without_positives_are_left_out_of_map_and_named() -> None:
    scores, truth = random_scores()
    truth[:, 2] = 0
    truth[:, 4] = NAN
    for ties in ("sklearn", "lineage"):
        result = multilabel_scores(scores, truth, ties=ties)
        assert result.without_positives == (2,)
        assert result.average_precision[[2, 4]].isnan().all()
        others = [0, 1, 3, 5, 6]
        assert result.mean_average_precision == pytest.approx(
            mean_average_precision(scores[:, others], truth[:, others], ties=ties)
        )


def test_a_class_that_nobody_annotated_counts_nowhere() -> None:
    scores, truth = random_scores()
    wider = torch.cat([truth, torch.full((60, 1), NAN)], dim=1)
    result = multilabel_scores(torch.cat([scores, torch.ones(60, 1)], dim=1), wider)
    assert result.as_dict() == pytest.approx(multilabel_scores(scores, truth).as_dict())
    assert result.at(0.8).f1[-1].isnan()


def test_what_is_not_annotated_may_score_anything() -> None:
    scores, truth = random_scores(unknown=0.3)
    changed = torch.where(truth.isnan(), NAN, scores)
    assert multilabel_scores(changed, truth).as_dict() == multilabel_scores(scores, truth).as_dict()


@pytest.mark.parametrize("samples", [0, 1])
def test_hardly_any_samples(samples: int) -> None:
    result = multilabel_scores(torch.ones(samples, 2), torch.ones(samples, 2))
    expected = 1.0 if samples else NAN
    assert result.mean_average_precision == pytest.approx(expected, nan_ok=True)
    assert result.at(0.8).overall_f1 == pytest.approx(expected, nan_ok=True)
    assert math.isnan(result.at(0.8).false_positive_rate)  # not a single negative
    assert math.isnan(
        multilabel_scores(torch.ones(samples, 0), torch.ones(samples, 0)).mean_average_precision
    )


def test_half_precision_and_other_label_types() -> None:
    scores, truth = random_scores(levels=8)
    expected = multilabel_scores(scores, truth).as_dict()
    assert multilabel_scores(scores.bfloat16(), truth).as_dict()["mAP"] == expected["mAP"]
    assert multilabel_scores(scores, truth.long()).as_dict() == expected
    assert multilabel_scores(scores.requires_grad_(), truth.bool()).as_dict() == expected


@pytest.mark.parametrize(
    ("scores", "truth", "message"),
    [
        (torch.ones(2), torch.ones(2), r"\[samples, classes\], got \(2,\) and \(2,\)"),
        (torch.ones(2, 3), torch.ones(2, 2), r"got \(2, 3\) and \(2, 2\)"),
        (torch.ones(2, 1, dtype=torch.long), torch.ones(2, 1), "floating point, got torch.int64"),
        (torch.tensor([[NAN]]), torch.ones(1, 1), "finite, got nan for class 0"),
        (torch.tensor([[0.5], [-torch.inf]]), torch.ones(2, 1), "finite, got -inf for class 0"),
        (torch.tensor([[0.5, torch.inf]]), torch.ones(1, 2), "finite, got inf for class 1"),
        (torch.ones(1, 2), torch.tensor([[1.0, 2.0]]), r"got 2.0 at index \(0, 1\)"),
        (torch.ones(1, 2), torch.tensor([[1, -1]]), r"got -1.0 at index \(0, 1\)"),
    ],
)
def test_what_cannot_be_scored_is_refused_by_name(
    scores: torch.Tensor, truth: torch.Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        multilabel_scores(scores, truth)


def test_unknown_options_are_refused() -> None:
    scores, truth = random_scores()
    with pytest.raises(ValueError, match="one of sklearn, lineage, got 'random'"):
        average_precision(scores, truth, ties="random")
    with pytest.raises(ValueError, match=r"threshold 0.7, only at: 0.8, 0.5"):
        multilabel_scores(scores, truth).at(0.7)


def test_average_map_is_the_plain_mean_over_steps() -> None:
    history = [torch.tensor([1.0]), torch.tensor([0.4, NAN, 0.6]), torch.tensor([0.2] * 4)]
    assert average_map(history) == pytest.approx((1.0 + 0.5 + 0.2) / 3)
    assert math.isnan(average_map([]))


def test_forgetting_compares_with_the_best_past() -> None:
    history = [
        torch.tensor([0.5, 0.9]),
        torch.tensor([0.8, 0.6, 0.7]),
        torch.tensor([0.6, 0.7, 0.9, 0.3]),
    ]
    assert forgetting(history) == pytest.approx(((0.8 - 0.6) + (0.9 - 0.7) + (0.7 - 0.9)) / 3)
    assert math.isnan(forgetting(history[:1]))


def test_forgetting_leaves_out_classes_without_an_ap_then_or_now() -> None:
    history = [torch.tensor([0.5, NAN, 0.9]), torch.tensor([0.4, 0.3, NAN, 0.2])]
    assert forgetting(history) == pytest.approx(0.1)
    assert forgetting([torch.tensor([0.5, 0.7]), torch.tensor([0.4])]) == pytest.approx(0.1)
    assert math.isnan(forgetting([torch.tensor([NAN]), torch.tensor([0.4])]))
