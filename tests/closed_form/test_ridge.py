"""The closed-form core against explicit solves on all data at once."""

import math

import pytest
import torch

from rebll_avalanche.closed_form.ridge import GAMMAS, RidgeSolver
from rebll_avalanche.closed_form.sums import LabelSums, RidgeSums

IMAGES, FEATURES, CLASSES = 300, 12, 5


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(IMAGES, FEATURES, generator=generator)
    direction = torch.randn(FEATURES, CLASSES, generator=generator)
    noise = torch.randn(IMAGES, CLASSES, generator=generator)
    labels = (features @ direction + 2 * noise > 3).float()
    return features, labels


def summed(features, labels, splits=1):
    """Sums over experiences that bring the classes one after the other, images in chunks."""
    sums = RidgeSums(FEATURES)
    sums.grow(labels.shape[1])
    for rows in torch.arange(len(features)).chunk(splits):
        sums.add(features[rows], labels[rows])
    return sums


def joint_ridge(features, labels, gamma):
    """One regression on everything, with an unpenalised intercept, written from the normal equations."""
    rows = torch.cat([features.double(), torch.ones(len(features), 1).double()], dim=1)
    penalty = gamma * torch.eye(rows.shape[1]).double()
    penalty[-1, -1] = 0
    return torch.linalg.solve(rows.T @ rows + penalty, rows.T @ labels.double())


@pytest.mark.parametrize("splits", [1, 3, 7])
@pytest.mark.parametrize("per_class", [False, True])
def test_any_split_gives_the_regression_on_all_data(data, splits, per_class):
    features, labels = data
    gamma = torch.full((CLASSES,), 10.0) if per_class else 10.0
    scores = RidgeSolver(summed(features, labels, splits)).solve(gamma)
    expected = joint_ridge(features, labels, 10.0)
    assert torch.allclose(scores.weight, expected[:-1], atol=1e-8, rtol=0)
    assert torch.allclose(scores.bias, expected[-1], atol=1e-8, rtol=0)


def test_classes_may_arrive_later_than_images(data):
    features, labels = data
    first = labels[:, :2].any(1)
    sums = RidgeSums(FEATURES, 2)
    sums.add(features[first], labels[first][:, :2])
    sums.grow(CLASSES)
    # What comes again brings only new labels, what is new has none of the old classes.
    added = labels[first] * torch.tensor([0, 0, 1, 1, 1])
    sums.relabel(features[first], torch.zeros_like(added), added)
    sums.add(features[~first], labels[~first])
    expected = joint_ridge(features, labels, 4.0)
    assert torch.allclose(RidgeSolver(sums).solve(4.0).weight, expected[:-1], atol=1e-8, rtol=0)
    whole = summed(features, labels)
    assert torch.allclose(sums.label_squares, whole.label_squares)


def test_order_does_not_matter_and_states_merge(data):
    features, labels = data
    left, right = summed(features[:90], labels[:90]), summed(features[90:], labels[90:])
    there, back = RidgeSums(FEATURES), RidgeSums(FEATURES)
    for sums, parts in ((there, (left, right)), (back, (right, left))):
        for part in parts:
            sums.merge(part)
    whole = summed(features, labels)
    for sums in (there, back):
        for name, value in whole.state_dict().items():
            assert torch.allclose(sums.state_dict()[name], value, atol=1e-8, rtol=0), name


def test_state_survives_saving(data, tmp_path):
    sums = summed(*data)
    torch.save(sums.state_dict(), tmp_path / "sums.pt")
    loaded = RidgeSums(1)
    loaded.load_state_dict(torch.load(tmp_path / "sums.pt"))
    assert all(torch.equal(loaded.state_dict()[k], v) for k, v in sums.state_dict().items())
    assert loaded.images == IMAGES
    assert loaded.num_bytes == 8 * ((FEATURES + 1) ** 2 + (FEATURES + 1) * CLASSES + CLASSES)


def test_weights_count_like_copies(data):
    features, labels = data
    weighted, copied = RidgeSums(FEATURES, CLASSES), RidgeSums(FEATURES, CLASSES)
    weighted.add(features[:20], labels[:20], torch.full((20,), 3.0))
    for _ in range(3):
        copied.add(features[:20], labels[:20])
    for name, value in copied.state_dict().items():
        assert torch.allclose(weighted.state_dict()[name], value), name


def test_guesses_count_like_labels(data):
    features, labels = data
    known = labels * torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0])
    guesses = torch.rand(IMAGES, CLASSES, generator=torch.Generator().manual_seed(0)) * (known == 0)
    sums, guessed, expected = (
        kind(FEATURES, CLASSES) for kind in (RidgeSums, LabelSums, RidgeSums)
    )
    sums.add(features, known)
    guessed.add(features, guesses)
    expected.add(features, known.double() + 0.3 * guesses.double())
    for name, value in expected.state_dict().items():
        found = sums.with_guesses(guessed, 0.3).state_dict()[name]
        assert torch.allclose(found, value, atol=1e-10), name


def test_what_was_added_can_be_changed_and_taken_out(data):
    features, labels = data
    sums = summed(features, labels)
    wrong = 1 - labels[:50]
    sums.relabel(features[:50], labels[:50], wrong)
    sums.remove(features[:20], wrong[:20])
    expected = RidgeSums(FEATURES, CLASSES)
    expected.add(features[20:50], wrong[20:])
    expected.add(features[50:], labels[50:])
    for name, value in expected.state_dict().items():
        assert torch.allclose(sums.state_dict()[name], value, atol=1e-9, rtol=0), name


def test_generalised_cross_validation_is_its_formula(data):
    features, labels = data
    errors = RidgeSolver(summed(features, labels)).cross_validation([0.1, 30.0])
    rows = torch.cat([features, torch.ones(IMAGES, 1)], dim=1).double()
    for gamma, error in zip((0.1, 30.0), errors, strict=True):
        penalty = gamma * torch.eye(FEATURES + 1).double()
        penalty[-1, -1] = 0
        hat = rows @ torch.linalg.solve(rows.T @ rows + penalty, rows.T)
        residual = labels.double() - hat @ labels.double()
        expected = residual.square().mean(0) / (1 - hat.trace() / IMAGES) ** 2
        assert torch.allclose(error, expected, atol=1e-10)


def test_gamma_is_chosen_near_the_best_on_new_images(data):
    features, labels = data
    solver = RidgeSolver(summed(features[:40], labels[:40]))
    chosen = float(solver.choose_gamma()[0])

    def new_error(gamma):
        return float((solver.solve(gamma)(features[40:]) - labels[40:]).square().mean())

    assert new_error(chosen) < 1.05 * min(new_error(gamma) for gamma in GAMMAS)
    assert len(set(solver.choose_gamma(per_class=True).tolist())) > 1


def test_more_features_than_images_is_not_interpolated():
    generator = torch.Generator().manual_seed(0)
    sums = RidgeSums(50, 2)
    labels = (torch.rand(20, 2, generator=generator) < 0.5).float()
    sums.add(torch.randn(20, 50, generator=generator), labels)
    solver = RidgeSolver(sums)
    assert float(solver.leverage(solver.choose_gamma()).max()) < 0.6


def test_probabilities_match_frequencies_on_new_images():
    """Two Gaussians with one covariance, where the true log-odds are known."""
    generator = torch.Generator().manual_seed(5)
    labels = (torch.rand(20000, 1, generator=generator) < 0.2).float()
    features = torch.randn(20000, 4, generator=generator) + labels * torch.tensor([1.5, 0, 0, 0])
    sums = RidgeSums(4, 1)
    sums.add(features, labels)
    solver = RidgeSolver(sums)
    scores = solver.solve(1.0)
    log_odds = scores.rescaled(*solver.moments(scores, 1.0).gaussian_line())(features)
    truth = 1.5 * (features[:, :1] - 0.75) + math.log(0.2 / 0.8)
    assert float((log_odds - truth).abs().mean()) < 0.1


def test_calibration_uses_scores_of_images_left_out():
    """With few images per feature, scores in the sample promise more than new images keep."""
    generator = torch.Generator().manual_seed(1)
    labels = (torch.rand(400, 1, generator=generator) < 0.3).double()
    features = torch.randn(400, 100, generator=generator).double()
    features[:, :1] += 1.5 * labels
    sums = RidgeSums(100, 1)
    sums.add(features, labels)
    solver = RidgeSolver(sums)
    gamma = solver.choose_gamma()
    scores = solver.solve(gamma)
    slope = solver.moments(scores, gamma).gaussian_line()[0]

    rows = torch.cat([features, torch.ones(400, 1)], dim=1)
    penalty = gamma * torch.eye(101).double()
    penalty[-1, -1] = 0
    leverage = (rows @ torch.linalg.solve(rows.T @ rows + penalty, rows.T)).diag()[:, None]

    def slope_of(values):
        with_class, without = values[labels == 1], values[labels == 0]
        spread = torch.cat([with_class - with_class.mean(), without - without.mean()])
        return (with_class.mean() - without.mean()) / spread.square().mean()

    inside = scores(features)
    left_out = (inside - leverage * labels) / (1 - leverage)
    assert torch.allclose(solver.left_out(scores, gamma, features, labels), left_out, atol=1e-10)
    assert float(slope / slope_of(left_out)) == pytest.approx(1, abs=0.03)
    assert float(slope_of(inside) / slope) > 1.2


def test_left_out_scores_are_those_of_heads_fitted_without_the_image(data):
    features, labels = data[0][:60], data[1][:60]
    solver = RidgeSolver(summed(features, labels))
    scores = solver.solve(3.0)
    left_out = solver.left_out(scores, 3.0, features, labels)
    for image in (0, 17, 59):
        others = torch.arange(60) != image
        head = RidgeSolver(summed(features[others], labels[others])).solve(3.0)
        assert torch.allclose(left_out[image], head(features[image]), atol=1e-8, rtol=0)


def test_places_of_an_image_are_scored_without_the_image(data):
    features, labels = data
    gamma = torch.tensor([3.0, 10.0, 10.0, 30.0, 1.0])
    solver = RidgeSolver(summed(features, labels))
    places = torch.stack([features, features.roll(1, 0), 2 * features.square()], dim=1)
    found = solver.left_out(solver.solve(gamma), gamma, features, labels, places)
    assert found.shape == (IMAGES, 3, CLASSES)
    for image in (0, 7, 150):
        rest = torch.arange(IMAGES) != image
        for column, penalty in enumerate(gamma.tolist()):
            head = joint_ridge(features[rest], labels[rest], penalty)[:, column]
            expected = places[image].double() @ head[:-1] + head[-1]
            assert torch.allclose(found[image, :, column], expected, atol=1e-8, rtol=0)


def test_a_class_without_images_gets_a_small_probability(data):
    features, labels = data
    sums = summed(features, torch.cat([labels, torch.zeros(IMAGES, 1)], dim=1))
    solver = RidgeSolver(sums)
    scores = solver.solve(1.0)
    line = solver.moments(scores, 1.0).gaussian_line()
    probability = scores.rescaled(*line)(features).sigmoid()
    assert float(probability[:, -1].max()) < 0.01
    assert bool(torch.isfinite(probability).all())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda sums: sums.add(torch.zeros(2, 3), torch.zeros(2, CLASSES)), "features"),
        (
            lambda sums: sums.add(torch.zeros(1, FEATURES), torch.full((1, CLASSES), torch.nan)),
            "NaN",
        ),
        (lambda sums: sums.grow(1), "must be at least 5"),
        (lambda sums: sums.merge(RidgeSums(3)), "same frozen backbone"),
        (lambda sums: RidgeSolver(sums), "no images"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call(RidgeSums(FEATURES, CLASSES))
