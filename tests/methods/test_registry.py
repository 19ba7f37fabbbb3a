"""Methods from outside: registered in a program, or brought by an installed package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebll_avalanche import METHODS, Method, get_method, register
from rebll_avalanche.methods import describe, method_names
from rebll_avalanche.strategies import FineTuning

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-method.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
ENTRY = re.search(r"\[project.entry-points.*\]\n(.*)\n", PAGE)
SMALL = """
benchmark: {name: scenes, scenario: B10-C10, train_size: 60, test_size: 60, image_size: 16}
training: {epochs: 1, batch_size: 32, device: cpu}
"""


@pytest.fixture
def _clean() -> Iterator[None]:
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.usefixtures("_clean")
def test_the_page_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "own_method"}
    for block in PYTHON:
        exec(compile(block, "own-method.md", "exec"), names)
    assert capsys.readouterr().out.split() == ["10.0"]
    assert describe("anchored").parameters["strength"].text == "Weight of the squared difference"
    assert method_names()[-1] == "anchored"
    with pytest.raises(ValueError, match="method 'anchored' already exists \\(Anchored"):
        register("anchored", FineTuning)


@pytest.mark.usefixtures("_clean")
def test_a_name_is_a_label_unless_one_is_given() -> None:
    assert register("mine", FineTuning).label == "mine"
    assert register("also-mine", FineTuning, label="Mine, too", head="gcn").head == "gcn"
    assert get_method("also-mine") == Method("Mine, too", FineTuning, head="gcn")


# Several commands in one process, since each would import torch.
COMMANDS = """
import json, sys
from contextlib import suppress
from rebll_avalanche.cli import main
for argv in json.loads(sys.argv[1]):
    with suppress(SystemExit):
        print("ended", main(argv))
"""


def test_an_installed_package_brings_a_method_to_every_command(tmp_path: Path) -> None:
    assert ENTRY is not None
    entry = ENTRY[1].replace('"', "")  # TOML has quotes, what pip writes has none
    (tmp_path / "anchored.py").write_text(PYTHON[0])
    about = tmp_path / "anchored-0.1.dist-info"  # as pip leaves it
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: anchored\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(
        f"[rebll_avalanche.methods]\n{entry}\nbroken = anchored:NONE\n"
    )
    (tmp_path / "small.yaml").write_text(SMALL)
    own = ["--method.name", "anchored"]
    commands = [
        ["run", *own, "--help"],
        ["run", *own, "--method.strenght", "1"],
        ["run", "--method.name", "broken"],
        ["run", "small.yaml", *own, "--method.strength", "5"],
        # Its run is there already, and belongs to the same method.
        ["table", "small.yaml", "--methods", "anchored", *own, "--method.strength", "5"],
        ["report", "runs", "-o", "page.html"],
    ]
    paths = os.pathsep.join(map(str, (tmp_path, ROOT)))
    told = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.findall(r"ended (\d)", told.stdout) == ["2", "2", "0", "0", "0"]
    shown = " ".join(told.stdout.split())
    assert "Weight of the squared difference. (type: float, default: 10.0)" in shown
    assert "strenght is not a setting of anchored; the nearest are method.strength" in told.stderr
    assert "the method 'broken' of anchored:NONE cannot be loaded: " in told.stderr
    assert "Traceback" not in told.stderr
    (folder,) = (tmp_path / "runs").glob("*anchored*/")
    content = yaml.safe_load((folder / "config.yaml").read_text())
    assert content["method"] == {"name": "anchored", "strength": 5.0}
    assert content["method_as_run"]["label"] == "Anchored"
    assert "Anchored" in (tmp_path / "runs" / "small.md").read_text()
    assert "Anchored" in (tmp_path / "page.html").read_text()
