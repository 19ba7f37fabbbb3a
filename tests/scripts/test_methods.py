"""The table of all methods, from run folders that are already there."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
import yaml

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "methods.py"
METRICS = ("mAP", "CF1@0.8", "OF1@0.8", "FPR@0.8", "CF1@0.5", "OF1@0.5", "FPR@0.5", "AvgmAP")


def write_run(folder: Path, label: str, score: float, *, finished: bool = True) -> None:
    folder.mkdir(parents=True)
    config = {"method": {"name": "any"}, "method_as_run": {"label": label, "parameters": {}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    steps = [
        {
            "experience": number,
            "classes_seen": number + 1,
            "metrics": dict.fromkeys(METRICS, value),
            "seconds": 30.0,
            "peak_memory_bytes": 2e9,
        }
        for number, value in enumerate([1.0, score])
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    if finished:
        (folder / "results.csv").write_text("experience\n")


def table(capsys, monkeypatch, folder: Path, *arguments: str) -> list[str]:
    command = [str(SCRIPT), "recipe.yaml", "--folder", str(folder), "--table-only", *arguments]
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_methods_are_sorted_and_averaged_over_seeds(tmp_path, capsys, monkeypatch):
    write_run(tmp_path / "lwf_seed0", "LwF", 0.50)
    write_run(tmp_path / "lwf_seed1", "LwF", 0.60)
    write_run(tmp_path / "rebll_seed0", "RebLL", 0.70)
    write_run(tmp_path / "er_seed0", "ER", 0.99, finished=False)
    lines = table(capsys, monkeypatch, tmp_path, "--seeds", "0", "1")
    assert lines[0].startswith("| method | mAP | CF1@0.8 |")
    assert lines[2] == f"| RebLL | {' | '.join(['70.0'] * 8)} | 1.0 | 2.0 |"
    assert lines[3] == f"| LwF | {' | '.join(['55.0'] * 8)} | 1.0 | 2.0 |"
    assert len(lines) == 4


@pytest.mark.parametrize("names", [["lwf"], ["all"]])
def test_nothing_to_show_prints_nothing(tmp_path, capsys, monkeypatch, names):
    assert table(capsys, monkeypatch, tmp_path, "--methods", *names) == []
