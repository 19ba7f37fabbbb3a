"""What is installed: the package and its data, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rebll_avalanche

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    [path] = folder.glob("*.whl")
    return zipfile.ZipFile(path).namelist()


def test_every_file_of_the_package_is_in(wheel: list[str]) -> None:
    package = ROOT / "rebll_avalanche"
    there = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there == {name for name in wheel if ".dist-info/" not in name}


@pytest.mark.parametrize(
    "name",
    [
        "py.typed",
        "methods/builtin.json",
        "plugins/signatures.pyi",
        "strategies/methods.pyi",
        "report/templates/report.html",
        "report/templates/report.css",
        "report/templates/model_card.md",
        "serve/static/index.html",
        "serve/static/style.css",
        "serve/static/main.js",
    ],
)
def test_what_is_needed_at_run_time_is_in(wheel: list[str], name: str) -> None:
    assert f"rebll_avalanche/{name}" in wheel


def test_nothing_else_is_installed(wheel: list[str]) -> None:
    assert {name.split("/")[0] for name in wheel} == {
        "rebll_avalanche",
        f"rebll_avalanche-{rebll_avalanche.__version__}.dist-info",
    }
    assert any(name.endswith("licenses/LICENSE") for name in wheel)


def test_the_version_is_the_same_everywhere() -> None:
    version = rebll_avalanche.__version__
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest
    assert newest[1] == version
