"""The paper's figures beside those of run folders."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from rebll_avalanche.configuration.config import Config

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "paper" / "compare.py"


def write_run(root: Path, name: str, last: float, **changes: object) -> None:
    benchmark = {"name": "voc", "scenario": "B4-C2", "image_size": 96}
    settings = {"benchmark": benchmark, "method": {"name": name}} | changes
    config = Config.from_dict(settings).to_dict()
    given = {key: value for key, value in config["method"].items() if key != "name"}
    parameters = {"alpha": 1.2} | given if name == "akd" else given
    as_run = {"label": name, "joint": name == "joint", "parameters": parameters}
    folder = root / f"{name}_{len(list(root.iterdir()))}"
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config | {"method_as_run": as_run}))
    metrics = {"mAP": last, "CF1@0.8": 0.5, "OF1@0.8": 0.5, "FPR@0.8": 0.1, "AvgmAP": last}
    line = {"experience": 0, "classes_seen": 20, "metrics": metrics, "seconds": 60}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "results.csv").write_text("experience\n")


def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Lines of the page by heading."""
    page, kept = tmp_path / "page.md", tmp_path / "measured.csv"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path), "-m", str(kept), "-o", str(page)])
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    runpy.run_path(str(SCRIPT), run_name="__main__")
    sections = page.read_text().split("\n## ")
    return {section.splitlines()[0]: section.splitlines() for section in sections[1:]}


def test_shares_of_joint_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, "joint", 0.8)
    write_run(tmp_path, "rebll", 0.72)  # 0.900 of Joint; the paper's 0.875
    write_run(tmp_path, "lwf", 0.70)
    write_run(tmp_path, "akd", 0.6)
    write_run(tmp_path, "akd", 0.7, method={"name": "akd", "alpha": 0.8})  # not the paper's row
    valid = {"name": "voc", "scenario": "B4-C2", "validation_size": 0.1}
    write_run(tmp_path, "er", 0.9, benchmark=valid, evaluation={"stream": "valid"})
    sections = compare(tmp_path, monkeypatch)
    table = sections["table1.yaml: voc B4-C2"]
    lines = {line.split(" | ")[0].strip("| "): line for line in table if line.startswith("| ")}
    assert "0.875 | 72.0 / 50.0 / 50.0 / 72.0 / 10.0 | 0.900 | 1 | verified |" in lines["rebll"]
    assert "| 0.544 | 70.0" in lines["lwf"]
    assert "| differs: above | small_cnn, 96 px, 20 epochs, adamw 0.001 |" in lines["lwf"]
    assert "60.0" in lines["akd"]
    assert "| 0 | not verified | not run |" in lines["er"]
    assert "differs" in "".join(sections["figure3.yaml: voc B4-C2"])  # false positives alone
    figures = "\n".join(sections["Figures without numbers"])
    assert (
        "| best alpha 1.2 | 0.8: 70.0, 1.2: 60.0 (voc B4-C2, small_cnn, 96 px, 20 epochs, adamw 0.001) | "
        "differs: best 0.8 |" in figures
    )
    assert "| figure5_beta | best beta 0.7 | not run | not verified |" in figures


def test_what_was_measured_outlives_the_run_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, "joint", 0.8)
    write_run(tmp_path, "rebll", 0.7)
    compare(tmp_path, monkeypatch)
    for folder in filter(Path.is_dir, tmp_path.iterdir()):
        shutil.rmtree(folder)
    write_run(tmp_path, "rebll", 0.6, seed=1)  # another seed: both count
    write_run(tmp_path, "joint", 0.9)  # the same seed again: replaced
    table = compare(tmp_path, monkeypatch)["table1.yaml: voc B4-C2"]
    lines = {line.split(" | ")[0].strip("| "): line for line in table if line.startswith("| ")}
    assert "| 65.0 / 50.0 / 50.0 / 65.0 / 10.0 | 0.722 | 2 |" in lines["rebll"]
    assert "| 90.0 / " in lines["joint"]


def test_a_mean_stays_until_all_of_its_seeds_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = 'voc,B4-C2,joint,,,"small_cnn, 96 px, 20 epochs",adamw 0.001'
    heading = "benchmark,scenario,method,parameter,value,network,training,seeds,"
    known = f"{heading}mAP,CF1,OF1,AvgmAP,FPR\n{key},0 1,70,50,50,70,10\n"
    (tmp_path / "measured.csv").write_text(known)
    write_run(tmp_path, "joint", 0.8)
    table = compare(tmp_path, monkeypatch)["table1.yaml: voc B4-C2"]
    assert any("| 70.0 / " in line for line in table)
    assert "1 of them are not used" in capsys.readouterr().out
    write_run(tmp_path, "joint", 0.9, seed=1)
    table = compare(tmp_path, monkeypatch)["table1.yaml: voc B4-C2"]
    assert any("| 85.0 / " in line for line in table)


@pytest.mark.parametrize(
    "other",
    [
        {"training": {"decay_head": True}},
        {"training": {"schedule": "constant"}},
        {"benchmark": {"name": "voc", "scenario": "B4-C2", "image_size": 96, "class_order": 3}},
        {"method": {"name": "rebll", "mem_size": 20}},
        {"method": {"name": "rebll", "relabel_threshold": 0.5}},
    ],
)
def test_another_experiment_does_not_replace_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, object]
) -> None:
    write_run(tmp_path, "joint", 0.8)
    write_run(tmp_path, "rebll", 0.6)
    write_run(tmp_path, "rebll", 0.4, **other)
    table = compare(tmp_path, monkeypatch)["table1.yaml: voc B4-C2"]
    rows = [line for line in table if line.startswith("| rebll |")]
    assert sorted(row.split(" | ")[3][:5] for row in rows) == ["40.0 ", "60.0 "]


def test_without_runs_nothing_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = compare(tmp_path, monkeypatch)
    rows = [line for lines in sections.values() for line in lines if "verified" in line]
    assert len(rows) > 60
    assert all("not verified" in row for row in rows)


def test_the_introduction_names_the_tolerances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = runpy.run_path(str(SCRIPT))
    text = " ".join((SCRIPT.parent / "README.md").read_text().split())
    assert f"within {script['SHARE']:g} of" in text
    assert f"within {script['POINTS']:g} points" in text
