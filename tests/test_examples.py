"""Each example runs, the demo in miniature."""

from __future__ import annotations

import contextlib
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(monkeypatch, name: str, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with contextlib.ExitStack() as stack:
        if arguments:  # these end with sys.exit(main())
            stopped = stack.enter_context(pytest.raises(SystemExit))
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert not arguments or stopped.value.code == 0


TINY = ("--epochs", "1", "--train-size", "200", "--test-size", "120")


def test_drop_in(monkeypatch, capsys):
    run(monkeypatch, "drop_in.py")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["5", "8", "11", "14", "17", "20"]


def test_voc_b5c3(monkeypatch, capsys, tmp_path):
    output = tmp_path / "out"
    run(
        monkeypatch,
        "voc_b5c3.py",
        *("--methods", "fine-tuning", "rebll", "joint"),
        *(*TINY, "--jobs", "1", "--output", str(output)),
    )
    results = json.loads((output / "results.json").read_text())["results"]
    assert list(results) == ["fine-tuning", "rebll", "joint"]
    assert [classes for classes, _ in results["rebll"]["curve"]] == [5, 8, 11, 14, 17, 20]
    assert all(0 <= result["last"]["mAP"] <= 1 for result in results.values())
    assert (output / "map.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "RebLL against Fine-Tuning" in printed
    assert "of Joint's mAP" in printed

    beside = tmp_path / "beside"
    command = [sys.executable, str(EXAMPLES / "voc_b5c3.py"), *TINY, "--jobs", "2"]
    command += ["--methods", "fine-tuning", "joint", "--output", str(beside)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    again = json.loads((beside / "results.json").read_text())["results"]
    assert list(again) == ["fine-tuning", "joint"]
    for name, result in again.items():  # side by side or one after the other: the same bits
        assert result["last"] == results[name]["last"]


def test_voc_b5c3_names_methods_that_exist(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["voc_b5c3.py", "--methods", "reball"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(EXAMPLES / "voc_b5c3.py"), run_name="__main__")
    assert stopped.value.code == 2
    assert "no method is called 'reball'; there are rebll" in capsys.readouterr().err
