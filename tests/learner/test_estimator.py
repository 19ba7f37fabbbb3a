"""The estimator against scikit-learn's own checks, and against the regression that it is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from rebll_avalanche.learner.estimator import RidgeMultiLabel


# All of them apply. scikit-learn itself leaves out those about weights of samples, which this estimator does
# not take, and has none about labels that are NaN or columns that come later; these are below.
@parametrize_with_checks([RidgeMultiLabel()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def data(samples=120, seed=0):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(samples, 6))
    labels = (vectors @ np.random.default_rng(9).normal(size=(6, 3)) > 0.5).astype(float)
    return vectors, labels


def test_it_is_a_ridge_regression():
    vectors, labels = data()
    ours = RidgeMultiLabel(gamma=3.0, calibration="none")
    for part in (slice(0, 50), slice(50, None)):
        ours.partial_fit(vectors[part], labels[part])
    theirs = Ridge(alpha=3.0).fit(vectors, labels)
    np.testing.assert_allclose(ours.decision_function(vectors), theirs.predict(vectors), atol=1e-8)


def test_classes_grow_and_come_again_by_name():
    vectors, labels = data()
    model = RidgeMultiLabel()
    model.partial_fit(vectors[:60], labels[:60, :2], classes=["cat", "dog"])
    model.partial_fit(vectors[60:], labels[60:, [2, 1]], classes=["car", "dog"])
    assert model.classes_.tolist() == ["cat", "dog", "car"]
    assert model.predict_proba(vectors).shape == (120, 3)
    new, truth = data(seed=1)
    assert (model.predict(new) == truth).mean() > 0.85


def test_unknown_labels_are_not_absent():
    vectors, labels = data(400)
    holes = np.where(np.random.default_rng(3).random(labels.shape) < 0.3, np.nan, labels)
    model = RidgeMultiLabel(unknown="shrunk").fit(vectors, holes)
    assert (model.predict(vectors) == labels).mean() > 0.85
    with pytest.raises(ValueError, match="1, 0 or NaN"):
        model.partial_fit(vectors, labels + 1)
