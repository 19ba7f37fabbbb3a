import json

import pytest
import yaml

from rebll_avalanche import cli


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    config = {
        "benchmark": {"name": "scenes", "scenario": "B2-C1"},
        "method": {"name": "lwf"},
        "seed": 0,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    steps = [
        {"experience": t, "classes_seen": 2 + t, "metrics": {"mAP": 0.5 - 0.1 * t, "AvgmAP": 0.45},
         "per_class_ap": {"cat": 0.5, "dog": 0.4}, "seconds": 3.0}
        for t in range(2)
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    return folder


def test_the_report_of_one_run_lies_in_it(run_folder, capsys):
    assert cli.main(["report", str(run_folder)]) == 0
    assert capsys.readouterr().out.strip() == str(run_folder / "report.html")
    assert "Drawn scenes B2-C1" in (run_folder / "report.html").read_text()


def test_output_and_figures_go_where_they_are_asked_to(run_folder, tmp_path):
    arguments = ["-o", str(tmp_path / "out" / "r.html"), "--figures", str(tmp_path / "figures")]
    assert cli.main(["report", str(run_folder), *arguments]) == 0
    assert (tmp_path / "out" / "r.html").is_file()
    assert (tmp_path / "figures" / "Drawn-scenes-B2-C1-map.svg").is_file()
    assert not (run_folder / "report.html").exists()


def test_folders_that_are_left_out_change_the_exit_code(run_folder, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    out = str(tmp_path / "r.html")
    assert cli.main(["report", str(run_folder), str(tmp_path / "other"), "-o", out]) == 1
    assert "other is not a run" in capsys.readouterr().err


def test_a_page_does_not_take_the_place_of_a_folder(run_folder, capsys):
    assert cli.main(["report", str(run_folder), "-o", str(run_folder)]) == 2
    said = capsys.readouterr().err
    assert (
        said
        == f"rebll report: {run_folder} is a folder; name a file, such as -o {run_folder}/report.html\n"
    )


def test_no_run_at_all_is_an_error(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "is not a run" in said
    assert "no run to report" in said


def test_a_real_run_can_be_reported(trained_run, tmp_path):
    assert cli.main(["report", str(trained_run), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "RebLL (AKD + OR)" in page
    for section in ("curve", "scores", "memory", "classes", "forgetting", "cost"):
        assert f'<section class="{section}">' in page
