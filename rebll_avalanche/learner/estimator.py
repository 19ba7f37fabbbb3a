"""The closed form on vectors as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.words import brief


class RidgeMultiLabel(ClassifierMixin, BaseEstimator):
    """Closed-form multi-label classifier for vectors, with partial fitting and unknown labels.

    ``Y`` is a matrix of 1, 0 and NaN with a column per class; a call of :meth:`partial_fit` may bring more
    columns than the last one. A vector of classes, as for other classifiers, becomes one column per class,
    and the most probable class is predicted.

    Args:
        unknown: Target for an unknown label, as in
            :class:`~rebll_avalanche.closed_form.learner.RidgeLearner`, like the two parameters below.
        gamma: The ridge penalty; by default chosen by generalised cross-validation.
        calibration: How scores become log-odds.
        threshold: Probability above which a class is predicted, for matrices.

    Attributes:
        classes_: The classes; for a matrix, the names of its columns, by default 0, 1, ...
        n_features_in_: Length of the vectors.

    >>> x, y = np.eye(4).repeat(5, axis=0), np.eye(4).repeat(5, axis=0)  # 20 vectors, 4 classes
    >>> estimator = RidgeMultiLabel(gamma=0.1).partial_fit(x, y[:, :2])
    >>> later = np.where(np.arange(4) < 2, np.nan, y)  # two more classes; the first two are unknown
    >>> estimator.partial_fit(x, later).predict(x[:1])
    array([[1, 0, 0, 0]])
    """

    def __init__(
        self,
        unknown: str = "auto",
        gamma: float | None = None,
        calibration: str = "logistic",
        threshold: float = 0.5,
    ) -> None:
        self.unknown = unknown
        self.gamma = gamma
        self.calibration = calibration
        self.threshold = threshold

    def fit(self, X: Any, y: Any) -> RidgeMultiLabel:  # noqa: N803 - scikit-learn's names
        """Reset the estimator and fit it."""
        for name in ("learner_", "classes_", "n_features_in_", "multilabel_"):
            if hasattr(self, name):
                delattr(self, name)
        return self.partial_fit(X, y)

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        classes: Sequence[Any] | None = None,
    ) -> RidgeMultiLabel:
        """Learn one more batch.

        Args:
            X: ``[samples, features]``.
            y: A matrix of 1, 0 and NaN, or a vector of classes.
            classes: Names of the matrix's columns, known or new; or, for a vector, all classes that later
                vectors may contain.
        """
        first = not hasattr(self, "learner_")
        vectors = validate_data(self, X, reset=first, dtype="numeric")
        labels, known = self._labels(y, len(vectors), classes)
        if first:
            options: dict[str, Any] = {"unknown": self.unknown, "calibration": self.calibration}
            self.learner_ = RidgeLearner(vectors.shape[1], gamma=self.gamma, keep="sums", **options)
        self.learner_.learn(torch.tensor(vectors, dtype=torch.float64), torch.from_numpy(labels))
        self.classes_ = known
        return self

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """Log-odds ``[samples, classes]``; for a vector with two classes, those of the second."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if self._two_classes else scores

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The probability of each class: independent for a matrix, summing to 1 for a vector."""
        scores = torch.from_numpy(self._scores(X))
        if self.multilabel_:
            return np.asarray(scores.sigmoid())
        if self._two_classes:
            second = (scores[:, 1] - scores[:, 0]).sigmoid()
            return np.asarray(torch.stack([1 - second, second], dim=1))
        return np.asarray(scores.softmax(dim=1))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """For a matrix, 1 where the probability is above the threshold; for a vector, the best class."""
        check_is_fitted(self, "learner_")
        if self.multilabel_:
            return (self.predict_proba(X) > self.threshold).astype(int)
        best: np.ndarray = self.classes_[self._scores(X).argmax(1)]
        return best

    @property
    def _two_classes(self) -> bool:
        return not self.multilabel_ and len(self.classes_) == 2

    def _scores(self, X: Any) -> np.ndarray:  # noqa: N803
        check_is_fitted(self, "learner_")
        vectors = validate_data(self, X, reset=False, dtype="numeric")
        found = self.learner_.solve()(torch.tensor(vectors, dtype=torch.float64))
        return np.asarray(found)

    def _labels(
        self, y: Any, count: int, classes: Sequence[Any] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """A label matrix with a column for every known and new class, and the names of the columns."""
        if y is None:
            raise ValueError(
                "This RidgeMultiLabel estimator requires y to be passed, but the target y is None"
            )
        given = np.asarray(y)
        if given.ndim == 0:
            raise ValueError(f"y must be a matrix or a vector of labels, got {brief(y)}")
        before: bool | None = getattr(self, "multilabel_", None)
        matrix = bool(before) or (given.ndim == 2 and given.shape[1] > 1)
        if given.ndim == 2 and given.shape[1] == 1 and not matrix:
            given = column_or_1d(given, warn=True)
        if len(given) != count:
            raise ValueError(f"{count} samples and {len(given)} rows of labels")
        if before is not None and before != matrix:
            raise ValueError(
                "labels were a matrix before and are a vector now, or the other way round"
            )
        self.multilabel_: bool = matrix
        return self._of_matrix(given, classes) if matrix else self._of_vector(given, classes)

    def _of_matrix(
        self, given: np.ndarray, classes: Sequence[Any] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        labels = given.astype(np.float64)
        if not np.isin(labels[~np.isnan(labels)], (0, 1)).all():
            raise ValueError("labels are 1, 0 or NaN")
        if classes is not None and not isinstance(classes, Iterable):
            raise ValueError(f"classes must be a list of names, got {brief(classes)}")
        names = list(range(labels.shape[1])) if classes is None else list(classes)
        if len(names) != labels.shape[1]:
            raise ValueError(f"{len(names)} names for {labels.shape[1]} columns")
        known = list(getattr(self, "classes_", []))
        known += [name for name in names if name not in known]
        wide = np.full((len(labels), len(known)), np.nan)
        wide[:, [known.index(name) for name in names]] = labels
        return wide, np.asarray(known)

    def _of_vector(
        self, given: np.ndarray, classes: Sequence[Any] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        if given.dtype.kind in "fO":
            assert_all_finite(given, input_name="y")
        check_classification_targets(given)
        here = unique_labels(given)
        known = getattr(self, "classes_", None)
        if known is None:
            known = here if classes is None else np.unique(np.asarray(classes))
        strangers = np.setdiff1d(here, known)
        if len(strangers):
            if classes is not None or known.dtype.kind != here.dtype.kind:
                raise ValueError(
                    f"labels {strangers.tolist()} are none of the classes {known.tolist()}"
                )
            known = np.concatenate([known, strangers])
        if len(known) < 2:
            raise ValueError(f"there are at least 2 classes, got 1 class: {known.tolist()}")
        return (given[:, None] == known[None, :]).astype(np.float64), known

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
