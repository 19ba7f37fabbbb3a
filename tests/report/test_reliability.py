"""The reliability curve is counted by hand, and stands in the report."""

import numpy as np
import pytest

from rebll_avalanche.report.reliability import calibration_error, reliability, reliability_curve
from rebll_avalanche.report.sections import sections_of
from rebll_avalanche.report.style import Look

# Of four labels scored 0.9 three are there, of six scored 0.1 one is.
PRESENT, ABSENT = np.array([0.9] * 3 + [0.1]), np.array([0.9] + [0.1] * 5)


def test_said_and_found():
    said, found, counts = reliability(PRESENT, ABSENT)
    np.testing.assert_allclose(said, [0.1, 0.9])
    np.testing.assert_allclose(found, [1 / 6, 3 / 4])
    assert counts.tolist() == [6, 4]
    expected = 0.6 * abs(0.1 - 1 / 6) + 0.4 * abs(0.9 - 0.75)
    assert calibration_error(PRESENT, ABSENT) == pytest.approx(expected)


def test_scores_of_one_belong_to_the_last_range():
    said, found, counts = reliability(np.ones(2), np.zeros(3))
    assert (said.tolist(), found.tolist(), counts.tolist()) == ([0, 1], [0, 1], [3, 2])


def test_the_curve_is_drawn_with_its_error():
    (axes,) = reliability_curve(PRESENT, ABSENT, Look("#123456"), width=330).axes
    np.testing.assert_allclose(axes.lines[1].get_xdata(), [0.1, 0.9])
    assert axes.texts[0].get_text() == "calibration error 10.0 %"


def test_the_report_has_a_panel_for_every_experiment_with_scores(setting, appearance):
    sections = {section.kind: section for section in sections_of(setting, "one", appearance)}
    titles = [panel.title for panel in sections["scores"].panels]
    assert [panel.title for panel in sections["reliability"].panels] == titles
    assert "calibration error" in sections["reliability"].panels[0].description
