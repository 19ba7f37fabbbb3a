"""What is drawn is what was measured: lines, bars and squares are read back from the figures."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from rebll_avalanche.report.bars import cost_bars, pooled_scores, score_histogram
from rebll_avalanche.report.curves import metric_curves, relabelling_curves, sweep_curves
from rebll_avalanche.report.groups import sweeps_of
from rebll_avalanche.report.matrices import class_ap_matrix, memory_matrix, memory_shares
from rebll_avalanche.report.names import duration
from rebll_avalanche.report.style import Look, svg_text


def group_of(setting, method):
    return next(group for group in setting.shown if group.method == method)


def texts(axes):
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("width", [960, 350])
def test_each_experiment_has_its_line_band_and_label(setting, appearance, width):
    (axes,) = metric_curves(setting, "mAP", "mAP, %", appearance, width=width).axes
    lwf = group_of(setting, "lwf")
    expected = [100 * spread.mean for _, spread in lwf.curve("mAP")]
    lines = [line for line in axes.lines if len(line.get_ydata()) == 6]
    assert len(lines) == len(setting.shown) == len(axes.collections)
    (line,) = (line for line in lines if line.get_color() == appearance["LwF"].colour)
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert f"LwF  {expected[-1]:.1f}" in texts(axes)
    assert any(text.startswith("Joint  ") for text in texts(axes))


def test_forgetting_has_no_ceiling_and_starts_at_zero(setting, appearance):
    (axes,) = metric_curves(setting, "Forgetting", "", appearance, width=960).axes
    assert not any("Joint" in text for text in texts(axes))
    assert axes.get_ylim()[0] <= 0


def test_a_sweep_marks_its_best_value(setting):
    (sweep,) = sweeps_of(setting)
    (axes,) = sweep_curves(sweep, Look("#123456"), width=330).axes
    last = [100 * group.last("mAP").mean for _, group in sweep.points]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), last)
    assert f"{max(last):.1f}" in texts(axes)
    assert {"Last", "Average"} <= set(texts(axes))


def test_relabelling_shows_what_was_scored(setting):
    (axes,) = relabelling_curves(group_of(setting, "rebll"), width=330).axes
    runs = group_of(setting, "rebll").runs
    expected = [100 * run.last.relabelling["accuracy"] for run in runs]
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(np.mean(expected))
    assert relabelling_curves(group_of(setting, "lwf"), width=330) is None


def test_scores_are_pooled_over_seeds_and_split_by_truth(setting):
    runs = group_of(setting, "lwf").runs
    present, absent = pooled_scores(runs)
    assert len(present) + len(absent) == 3 * 400 * 20
    assert len(present) == sum(int((run.scores["truth"] == 1).sum()) for run in runs)


def test_a_histogram_shows_shares_and_what_is_above_the_threshold():
    present, absent = np.array([0.9, 0.9, 0.1, 0.5]), np.array([0.02] * 9 + [0.95])
    (axes,) = score_histogram(present, absent, Look("#123456"), threshold=0.8, width=330).axes
    assert "present: 50.0 % above 0.8" in texts(axes)
    assert "absent: 10.0 % above 0.8" in texts(axes)
    line = axes.patches[3].get_data()
    assert line.values.max() == pytest.approx(0.5)
    assert axes.patches[1].get_data().values[0] == pytest.approx(0.9)


def test_a_memory_square_says_who_and_whether():
    memory = {
        "labels": np.array([[1.0, 0.0, 1.0], [0.0, np.nan, 1.0]]),
        "provenance": np.array([[1, 1, 3], [2, 0, 1]], dtype=np.uint8),
        "experience": np.array([0, 1]),
        "class_ends": np.array([2, 3]),
    }
    (axes,) = memory_matrix(memory, width=330).axes
    pixels = np.asarray(axes.images[0].get_array())
    colours = {name: colour for name, colour, _ in memory_shares(memory)}
    assert to_hex(pixels[0, 0, :3]) == colours["ground truth"]
    np.testing.assert_allclose(pixels[0, 2, :3], to_rgb(colours["model just trained"]))
    np.testing.assert_allclose(pixels[1, 0, :3], to_rgb(colours["previous model"]))
    assert pixels[0, 0, 3] == 1 > pixels[0, 1, 3] > 0 == pixels[1, 1, 3]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]
    assert [share for _, _, share in memory_shares(memory)] == pytest.approx([3 / 6, 1 / 6, 1 / 6])


def test_right_relabels_are_written_into_their_blocks():
    memory = {
        "labels": np.zeros((5, 5)),
        "provenance": np.ones((5, 5), dtype=np.uint8),
        "experience": np.array([0, 0, 2, 2, 2]),
        "class_ends": np.array([2, 4, 5]),
    }
    blocks = [
        {"images": 2, "classes": 0, "right": 0.914, "count": 6},
        {"images": 0, "classes": 2, "right": 1.0, "count": 2},
    ]
    (axes,) = memory_matrix(memory, blocks, width=330).axes
    written = {text.get_text(): text.get_position() for text in axes.texts}
    assert written == {"91": (1.0, 3.5), "100": (4.5, 1.0)}


def test_memory_of_a_run_under_way_shows_classes_seen_so_far():
    memory = {
        "labels": np.array([[1.0, 0.0, np.nan]]),
        "provenance": np.array([[1, 1, 0]], dtype=np.uint8),
        "experience": np.array([0]),
        "class_ends": np.array([2]),
    }
    (axes,) = memory_matrix(memory, width=330).axes
    assert axes.images[0].get_array().shape[:2] == (1, 2)
    assert memory_shares(memory)[0][2] == 1


def test_class_ap_is_in_order_of_learning_and_written_at_both_ends(setting):
    group = group_of(setting, "lwf")
    (axes,) = class_ap_matrix(group, width=330).axes
    names, values = group.class_ap()
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    np.testing.assert_allclose(np.ma.filled(axes.images[0].get_array(), np.nan), 100 * values)
    assert texts(axes).count(f"{100 * values[0, 0]:.0f}") >= 1
    assert len(texts(axes)) == 2 * 17 + 3


def test_bars_have_the_length_of_the_cost(setting, appearance):
    costs = [(group, group.total("seconds", sum)) for group in setting.groups]
    (axes,) = cost_bars(costs, duration, appearance, width=330).axes
    assert [bar.get_width() for bar in axes.patches] == [spread.mean for _, spread in costs]
    assert texts(axes)[0] == duration(costs[0][1].mean)
    unknown = [(group, None) for group in setting.groups]
    assert cost_bars(unknown, duration, appearance, width=330) is None


def test_bars_keep_their_room_beside_long_labels(setting, appearance):
    variant = (
        ", lambda_akd 0.3, teacher_targets corrected, relabel_by prevalence, backbone_lr_scale 0.1"
    )
    groups = [replace(group, label=group.label + variant) for group in setting.groups]
    shown = {group.label: appearance[setting.groups[1].label] for group in groups}
    costs = [(group, group.total("seconds", sum)) for group in groups]
    figure = cost_bars(costs, duration, shown, width=330)
    svg_text(figure)  # matplotlib warns, which is an error here, when a layout does not fit
    (axes,) = figure.axes
    assert axes.get_position().width > 0.4
    written = [label.get_text() for label in axes.get_yticklabels()]
    assert [label.replace("\n", " ") for label in written] == [group.label for group in groups]
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
