"""The results of an evaluation: per class, and their means under the names of the literature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

NAN = float("nan")


@dataclass(frozen=True, eq=False)
class ThresholdScores:
    """Precision, recall and F1 of the decisions ``score > threshold``.

    Per-class tensors hold NaN where a class has no annotated sample. Without a true positive,
    precision, recall and F1 are 0, as usual in the field.

    Attributes:
        threshold: A class with a higher score counts as predicted.
        true_positives: Per class, like ``false_positives``, ``false_negatives``, ``true_negatives``.
        precision: Per class, ``TP / (TP + FP)``.
        recall: Per class, ``TP / (TP + FN)``.
        f1: Per class, ``2 TP / (2 TP + FP + FN)``.
    """

    threshold: float
    true_positives: Tensor
    false_positives: Tensor
    false_negatives: Tensor
    true_negatives: Tensor
    precision: Tensor
    recall: Tensor
    f1: Tensor

    @cached_property
    def class_precision(self) -> float:
        """CP, the mean over annotated classes of their precision."""
        return mean_over_classes(self.precision)

    @cached_property
    def class_recall(self) -> float:
        """CR, the mean over annotated classes of their recall."""
        return mean_over_classes(self.recall)

    @cached_property
    def class_f1(self) -> float:
        """CF1, the mean over annotated classes of their F1 (not the harmonic mean of CP and CR)."""
        return mean_over_classes(self.f1)

    @cached_property
    def overall_precision(self) -> float:
        """OP, ``ΣTP / (ΣTP + ΣFP)`` over all classes together."""
        return self._overall(self.false_positives)

    @cached_property
    def overall_recall(self) -> float:
        """OR, ``ΣTP / (ΣTP + ΣFN)`` over all classes together."""
        return self._overall(self.false_negatives)

    @cached_property
    def overall_f1(self) -> float:
        """OF1, ``2 ΣTP / (2 ΣTP + ΣFP + ΣFN)``, the harmonic mean of OP and OR."""
        return self._overall((self.false_positives + self.false_negatives) / 2)

    @cached_property
    def false_positive_rate(self) -> float:
        """FPR, ``ΣFP / (ΣFP + ΣTN)`` over all classes together; NaN if there are no negatives."""
        false, true = float(self.false_positives.sum()), float(self.true_negatives.sum())
        return false / (false + true) if false + true else NAN

    def as_dict(self) -> dict[str, float]:
        """The seven means under their names in the literature, such as ``CF1@0.8``."""
        means = {
            "CP": self.class_precision,
            "CR": self.class_recall,
            "CF1": self.class_f1,
            "OP": self.overall_precision,
            "OR": self.overall_recall,
            "OF1": self.overall_f1,
            "FPR": self.false_positive_rate,
        }
        return {f"{name}@{self.threshold:g}": value for name, value in means.items()}

    def _overall(self, errors: Tensor) -> float:
        hits, missed = float(self.true_positives.sum()), float(errors.sum())
        if bool(self.f1.isnan().all()):
            return NAN
        return hits / (hits + missed) if hits else 0.0


@dataclass(frozen=True, eq=False)
class MultiLabelScores:
    """All metrics of one evaluation.

    Attributes:
        average_precision: Per class; NaN where a class has no positive.
        num_positives: Annotated positives per class.
        num_annotated: Annotated samples per class.
        at_thresholds: One :class:`ThresholdScores` per requested threshold.
    """

    average_precision: Tensor
    num_positives: Tensor
    num_annotated: Tensor
    at_thresholds: tuple[ThresholdScores, ...]

    @cached_property
    def mean_average_precision(self) -> float:
        """mAP over the classes with an AP; NaN if there are none."""
        return mean_over_classes(self.average_precision)

    @property
    def without_positives(self) -> tuple[int, ...]:
        """Annotated classes without positives, which have no AP and do not count in mAP."""
        empty = (self.num_positives == 0) & (self.num_annotated > 0)
        return tuple(empty.nonzero().flatten().tolist())

    def at(self, threshold: float) -> ThresholdScores:
        """The metrics at one of the requested thresholds."""
        for scores in self.at_thresholds:
            if scores.threshold == threshold:
                return scores
        known = ", ".join(f"{scores.threshold:g}" for scores in self.at_thresholds)
        raise ValueError(
            f"no metrics were computed at threshold {threshold:g}, only at: {known or 'none'}"
        )

    def as_dict(self) -> dict[str, float]:
        """mAP and the means at every threshold, by name."""
        values = {"mAP": self.mean_average_precision}
        for scores in self.at_thresholds:
            values.update(scores.as_dict())
        return values


def mean_over_classes(values: Tensor) -> float:
    """The mean of the values that are not NaN; NaN if there are none.

    >>> import torch
    >>> mean_over_classes(torch.tensor([0.5, float("nan"), 1.0]))
    0.75
    """
    return float(values.nanmean()) if values.numel() else NAN
