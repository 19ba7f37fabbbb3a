import json

import pytest
import yaml

from rebll_avalanche.errors import DamagedError
from rebll_avalanche.report.runs import read_run, read_runs


def test_a_run_is_read_as_it_was_written(run_folders):
    run = read_run(run_folders / "rebll_seed1")
    assert (run.method, run.label, run.seed, run.joint) == ("rebll", "RebLL (AKD + OR)", 1, False)
    assert [step.classes_seen for step in run.steps] == [5, 8, 11, 14, 17, 20]
    assert (
        run.last.metrics["mAP"]
        == json.loads((run_folders / "rebll_seed1" / "metrics.jsonl").read_text().splitlines()[-1])[
            "metrics"
        ]["mAP"]
    )
    assert run.scores["scores"].shape == run.scores["truth"].shape == (400, 20)
    assert run.memory["labels"].shape == (40, 20)
    assert read_run(run_folders / "lwf_seed0").memory is None
    assert run.cams == []
    assert len(read_run(run_folders / "rebll_seed0").cams) == 2


def test_setting_and_choices_share_the_configuration(run_folders):
    run = read_run(run_folders / "akd_alpha0.8")
    assert run.setting["benchmark.scenario"] == "B5-C3"
    assert "benchmark.root" not in run.setting
    assert run.choices["method.alpha"] == 0.8
    assert run.choices["training.epochs"] == 20
    assert not set(run.setting) & set(run.choices)
    assert "seed" not in run.choices


def test_parameters_that_were_left_out_have_their_defaults(write_run, tmp_path):
    folder = write_run(tmp_path / "run", "akd", alpha=1.2)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    del config["method"]["alpha"]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert read_run(folder).choices["method.alpha"] == 1.2


def test_a_benchmark_without_what_an_earlier_version_did_not_know_is_the_same(write_run, tmp_path):
    old, new, other = (write_run(tmp_path / name, "akd") for name in ("old", "new", "other"))
    for folder, windows in ((new, False), (other, True)):
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config["benchmark"]["features_windows"] = windows
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert read_run(old).setting == read_run(new).setting != read_run(other).setting
    assert read_run(old).choices == read_run(new).choices


def test_what_is_not_a_run_is_refused_with_the_reason(write_run, tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a run"):
        read_run(tmp_path)
    folder = write_run(tmp_path / "run", "lwf")
    (folder / "metrics.jsonl").write_text("\n")
    with pytest.raises(FileNotFoundError, match="has not finished its first experience"):
        read_run(folder)
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match="has not finished its first experience"):
        read_run(folder)


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[1]", '{"experience": 0}', "[" * 100_000),
        '{"experience": 0, "classes_seen": 5, "metrics": {"mAP": "high"}}',
        '{"experience": 0, "classes_seen": 5, "metrics": {}, "seconds": []}',
    ],
)
def test_a_damaged_line_is_named(write_run, tmp_path, line):
    folder = write_run(tmp_path / "run", "lwf")
    path = folder / "metrics.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DamagedError, match=r"metrics\.jsonl, line 7 is not a result: [^\n]+$"):
        read_run(folder)


def test_what_was_not_measured_has_its_default(write_run, tmp_path):
    folder = write_run(tmp_path / "run", "lwf")
    line = {"experience": 0, "classes_seen": 5, "metrics": {}, "seconds": None, "later": [1]}
    (folder / "metrics.jsonl").write_text(json.dumps(line))
    assert (read_run(folder).last.seconds, read_run(folder).last.images_per_second) == (0.0, None)


@pytest.mark.parametrize("text", ["{a: [", "just words"])
def test_a_damaged_configuration_is_named(write_run, tmp_path, text):
    folder = write_run(tmp_path / "run", "lwf")
    (folder / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"config\.yaml"):
        read_run(folder)


def test_folders_of_runs_are_searched_and_others_reported(write_run, tmp_path):
    write_run(tmp_path / "all" / "deep" / "a", "lwf")
    write_run(tmp_path / "all" / "b", "er")
    (tmp_path / "all" / "c").mkdir()
    (tmp_path / "all" / "c" / "config.yaml").write_text("seed: 0")
    runs, left_out = read_runs([tmp_path / "all", tmp_path / "all" / "b", tmp_path / "nothing"])
    assert [run.method for run in runs] == ["er", "lwf"]
    assert len(left_out) == 2
    assert "first experience" in left_out[0]
    assert "nothing does not exist" in left_out[1]


def test_folders_that_are_being_written_are_not_runs_yet(write_run, tmp_path):
    write_run(tmp_path / "a", "lwf")
    write_run(tmp_path / ".b", "lwf")
    runs, left_out = read_runs([tmp_path])
    assert [run.folder.name for run in runs] == ["a"]
    assert left_out == []
