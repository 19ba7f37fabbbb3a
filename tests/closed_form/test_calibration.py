"""Probabilities from scores, learned along a stream."""

import pytest
import torch

from rebll_avalanche.closed_form.calibration import ScoreCalibration

TRUTH = torch.tensor([2.0, 0.7, -1.5], dtype=torch.float64)


def experience(seed, classes=4, images=1500):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(images, classes, generator=generator, dtype=torch.float64)
    spread = torch.rand(classes, generator=generator, dtype=torch.float64) + 0.5
    share = 0.05 + 0.4 * torch.rand(classes, generator=generator, dtype=torch.float64)
    log_odds = TRUTH[0] * scores / spread + TRUTH[1] * share.logit() + TRUTH[2]
    draw = torch.rand(images, classes, generator=generator, dtype=torch.float64)
    return scores, (draw < log_odds.sigmoid()).double(), spread, share


def test_coefficients_are_recovered_over_experiences():
    calibration = ScoreCalibration()
    for seed in range(4):
        calibration.fit(*experience(seed))
    assert torch.allclose(calibration.coefficients, TRUTH, atol=0.25)


def test_two_experiences_weigh_like_one():
    """The Gaussian that stands for the past is nearly as good as the past itself."""
    both, one = ScoreCalibration(), ScoreCalibration()
    scores, labels, spread, share = experience(0, images=4000)
    for half in (slice(None, 2000), slice(2000, None)):
        both.fit(scores[half], labels[half], spread, share)
    one.fit(scores, labels, spread, share)
    assert torch.allclose(both.coefficients, one.coefficients, atol=0.02)
    assert torch.allclose(both.precision, one.precision, rtol=0.05, atol=5.0)


def test_unknown_labels_are_left_out():
    scores, labels, spread, share = experience(1)
    some, fewer = ScoreCalibration(), ScoreCalibration()
    masked = labels.clone()
    masked[700:] = torch.nan
    some.fit(scores, masked, spread, share)
    fewer.fit(scores[:700], labels[:700], spread, share)
    assert torch.allclose(some.coefficients, fewer.coefficients)


def test_a_handful_of_labels_changes_little_and_never_turns_the_order():
    calibration = ScoreCalibration()
    start = calibration.coefficients.clone()
    one = torch.ones(1, dtype=torch.float64)
    calibration.fit(-3 * one[:, None], one[:, None], 0.1 * one, 0.2 * one)
    assert float((calibration.coefficients - start).abs().max()) < 5
    slope, _ = calibration.line(0.1 * one, 0.2 * one)
    assert float(slope) > 0


def test_state_round_trip():
    calibration, other = ScoreCalibration(), ScoreCalibration()
    calibration.fit(*experience(2))
    other.load_state_dict(calibration.state_dict())
    for model in (calibration, other):
        model.fit(*experience(3))
    assert torch.equal(calibration.coefficients, other.coefficients)
    assert float(calibration.coefficients[0]) == pytest.approx(2.0, abs=0.3)
