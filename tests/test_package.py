"""What may import what, and what an import costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import rebll_avalanche

PACKAGE = Path(rebll_avalanche.__file__).parent

# What every room stands on; these import one another only, in this order.
GROUND = [
    "errors",
    "plain_yaml",
    "words",
    "arguments",
    "files",
    "arrays",
    "protocols",
    "stateful",
    "distributed",
]
# Rooms, lowest first: a room may import itself, the ground, and the rooms in its list.
ALLOWED = {
    "process": [],
    "methods": [],
    "pictures": [],
    "picture_store": [],
    "tables": ["pictures"],
    "run_files": [],
    "manifest": ["run_files"],
    "losses": [],
    "scenario": [],
    "labels": ["losses"],
    "compatibility": ["labels"],
    "closed_form": ["labels"],
    "memory": ["labels"],
    "metrics": ["labels", "losses", "compatibility"],
    "models": ["labels", "losses"],
    "benchmarks": ["pictures", "tables", "scenario", "labels", "models"],
    "plugins": [
        "methods",
        "losses",
        "scenario",
        "closed_form",
        "labels",
        "memory",
        "models",
        "compatibility",
    ],
    "strategies": ["methods", "labels", "memory", "metrics", "plugins"],
    "report": ["run_files", "manifest"],
    "configuration": ["methods", "run_files"],
    "checkpointing": [
        "run_files",
        "manifest",
        "picture_store",
        "labels",
        "memory",
        "models",
        "benchmarks",
        "plugins",
    ],
}
ALLOWED = {room: GROUND[:i] for i, room in enumerate(GROUND)} | {
    room: [*GROUND, *rooms] for room, rooms in ALLOWED.items()
}
ALLOWED["running"] = list(ALLOWED)
ALLOWED["inference"] = list(ALLOWED)
ALLOWED["learner"] = list(ALLOWED)
ALLOWED["verify"] = list(ALLOWED)
ALLOWED["serve"] = list(ALLOWED)
ALLOWED["commands"] = list(ALLOWED)
ALLOWED["cli"] = ["commands", "words", "process"]
ALLOWED["__main__"] = ["cli"]


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a file imports, at the top or inside functions, type hints aside."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module]
                if node.module != "rebll_avalanche"
                else [f"rebll_avalanche.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("rebll_avalanche.")}
    return rooms - {"__version__"}


def test_every_room_has_its_rules():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert rooms - {"__init__", "__pycache__", "py"} == set(ALLOWED)


@pytest.mark.parametrize("room", ALLOWED)
def test_dependencies_point_one_way(room):
    place = PACKAGE / room
    files = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    assert files
    for file in files:
        extra = imported_rooms(file) - {room, *ALLOWED[room]}
        assert not extra, f"{file.relative_to(PACKAGE)} must not import {sorted(extra)}"


def modules_after(code: str) -> set[str]:
    """Top-level modules that are loaded after some code ran in a fresh interpreter."""
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    return {name.split(".")[0] for name in json.loads(output.splitlines()[-1])}


@pytest.mark.parametrize(
    "code",
    [
        "import rebll_avalanche",
        "import rebll_avalanche.report",
        "import rebll_avalanche.tables, rebll_avalanche.pictures",
        "import contextlib, rebll_avalanche.cli as c\n"
        "with contextlib.suppress(SystemExit): c.main(['--help'])",
        "import contextlib, rebll_avalanche.cli as c\n"
        "with contextlib.suppress(SystemExit): c.main(['run', '--help'])",
    ],
)
def test_a_light_start(code):
    assert not modules_after(code) & {"torch", "avalanche", "timm", "sklearn", "torchvision"}


def test_every_module_imports_where_there_is_no_posix():
    names = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
    ]
    code = f"""
import importlib, psutil, sys  # psutil itself has other ways on other systems
sys.modules["fcntl"] = sys.modules["resource"] = None
for module in {names!r}:
    importlib.import_module(module)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=300)


def test_every_public_name_exists():
    for name in rebll_avalanche.__all__:
        assert getattr(rebll_avalanche, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        rebll_avalanche.nonsense  # noqa: B018
