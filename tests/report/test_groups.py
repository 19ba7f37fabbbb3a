import math

import numpy as np
import pytest

from rebll_avalanche.report.groups import Spread, settings_of, sweeps_of
from rebll_avalanche.report.runs import read_run, read_runs


def group_of(setting, label):
    (group,) = (group for group in setting.groups if group.label == label)
    return group


def test_spread_is_the_sample_deviation_of_what_is_known():
    spread = Spread.of([0.1, 0.4, math.nan, None])
    assert (spread.mean, spread.count) == (0.25, 2)
    assert spread.std == pytest.approx(np.std([0.1, 0.4], ddof=1))
    assert math.isnan(Spread.of([0.3]).std)
    assert Spread.of([None]) is None


def test_seeds_form_a_group_and_variants_do_not(setting):
    counts = {group.label: len(group.runs) for group in setting.groups}
    assert counts == {
        "Joint": 1, "RebLL (AKD + OR)": 3, "LwF": 3, "ER": 3, "Fine-Tuning": 3,
        "RebLL (AKD), alpha 1.2": 3, "RebLL (AKD), alpha 0.4": 1,
        "RebLL (AKD), alpha 0.8": 1, "RebLL (AKD), alpha 1.6": 1,
    }  # fmt: skip
    assert [run.seed for run in group_of(setting, "ER").runs] == [0, 1, 2]
    assert setting.title == "PASCAL VOC 2007 B5-C3"


def test_the_ceiling_comes_first_then_what_keeps_most(setting):
    assert setting.groups[0].ceiling
    last = [group.last("mAP").mean for group in setting.groups[1:]]
    assert last == sorted(last, reverse=True)
    assert not any(group.ceiling for group in setting.competitors)


def test_a_curve_has_the_mean_over_seeds(setting, run_folders):
    curve = group_of(setting, "LwF").curve("mAP")
    assert [seen for seen, _ in curve] == [5, 8, 11, 14, 17, 20]
    runs = [read_run(run_folders / f"lwf_seed{seed}") for seed in range(3)]
    assert curve[2][1].mean == pytest.approx(np.mean([run.steps[2].metrics["mAP"] for run in runs]))
    assert [seen for seen, _ in group_of(setting, "LwF").curve("Forgetting")] == [8, 11, 14, 17, 20]


def test_costs_are_combined_over_experiences_first(setting):
    group = group_of(setting, "ER")
    total = group.total("seconds", sum)
    assert total.mean == pytest.approx(
        np.mean([sum(s.seconds for s in run.steps) for run in group.runs])
    )
    assert group.total("trainable_parameters", max) is None


def test_class_ap_starts_where_a_class_is_learned(setting):
    names, values = group_of(setting, "LwF").class_ap()
    assert names[0] == "aeroplane"
    assert values.shape == (20, 6)
    assert np.isnan(values[19]).tolist() == [True] * 5 + [False]
    runs = group_of(setting, "LwF").runs
    assert values[5, 1] == pytest.approx(
        np.mean([run.steps[1].per_class_ap["bus"] for run in runs])
    )


def test_a_sweep_is_one_parameter_that_differs_alone(setting):
    (sweep,) = sweeps_of(setting)
    assert (sweep.title, sweep.parameter) == ("RebLL (AKD): alpha", "alpha")
    assert [number for number, _ in sweep.points] == [0.4, 0.8, 1.2, 1.6]


def test_two_parameters_at_once_are_no_sweep(write_run, tmp_path):
    write_run(tmp_path / "a", "akd", alpha=1.2, beta=0.7)
    write_run(tmp_path / "b", "akd", alpha=0.8, beta=0.5)
    (setting,) = settings_of(read_runs([tmp_path])[0])
    assert sweeps_of(setting) == []
    assert {g.label for g in setting.groups} == {
        "RebLL (AKD), alpha 1.2, beta 0.7", "RebLL (AKD), alpha 0.8, beta 0.5"
    }  # fmt: skip
    assert len(setting.shown) == 2


def test_figures_leave_out_points_of_a_sweep_with_fewer_seeds(setting):
    labels = {group.label for group in setting.shown}
    assert "RebLL (AKD), alpha 1.2" in labels
    assert "RebLL (AKD), alpha 0.8" not in labels
    assert "LwF" in labels


def test_settings_are_told_apart_by_what_differs(write_run, tmp_path):
    for name, stream in (("a", "test"), ("b", "valid")):
        path = write_run(tmp_path / name, "lwf") / "config.yaml"
        path.write_text(path.read_text().replace("stream: test", f"stream: {stream}"))
    settings = settings_of(read_runs([tmp_path])[0])
    assert [s.title for s in settings] == [
        "PASCAL VOC 2007 B5-C3, stream test", "PASCAL VOC 2007 B5-C3, stream valid"
    ]  # fmt: skip
