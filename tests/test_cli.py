"""The command line as people meet it."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import rebll_avalanche
from rebll_avalanche.cli import COMMANDS, main
from rebll_avalanche.process import pass_on_warnings


def test_help_names_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert main([]) == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = importlib.import_module(f"rebll_avalanche.commands.{name}")
    assert command.HELP
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert f"usage: rebll {name}" in capsys.readouterr().out


def test_an_unknown_command_is_refused_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tabel"]) == 2
    assert "unknown command 'tabel'; the nearest are table" in capsys.readouterr().err


def test_what_is_wrong_ends_in_a_line_not_in_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "none.yaml"]) == 2
    assert capsys.readouterr().err == "rebll run: no recipe at none.yaml\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "runs/a"),
            "runs/a: No space left on device; free some space, then run the same command to continue",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/root"), "/root: Permission denied"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError("cannot identify image file"), "cannot identify image file"),
    ],
)
def test_what_the_system_refuses_is_told_with_its_file(
    error: OSError, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: object) -> int:
        raise error

    monkeypatch.setattr(importlib.import_module("rebll_avalanche.commands.doctor"), "run", fail)
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err == f"rebll doctor: {said}\n"


def test_a_file_is_no_place_for_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").touch()
    assert main(["run", "--folder", str(tmp_path / "notes")]) == 2
    assert capsys.readouterr().err.endswith(
        "notes is a file; choose another name for the run folder\n"
    )
    assert main(["run", "--folder", str(tmp_path / "notes" / "run")]) == 2
    assert capsys.readouterr().err.endswith("notes/run: Not a directory\n")


def test_only_warnings_of_this_package_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    told: list[str] = []
    pass_on_warnings(told.append)
    own, foreign = Path(rebll_avalanche.__file__), tmp_path / "rebll_avalanche" / "venv" / "a.py"
    for file, text in ((own, "ours"), (foreign, "theirs")):
        warnings.showwarning(UserWarning(text), UserWarning, str(file), 1)
    warnings.showwarning(DeprecationWarning("old"), DeprecationWarning, str(own), 1)
    assert told == ["ours"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--stream", "tset"], "argument --stream: invalid choice: 'tset' (choose from"),
        (["--images", "0"], "--images must be at least 1, got 0"),
    ],
)
def test_show_refuses_before_it_reads_a_data_set(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *argv]) == 2
    assert capsys.readouterr().err.startswith(f"rebll show: {message}")


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["--version"]])
def test_a_reader_that_has_seen_enough_costs_no_traceback(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does when it has its lines
    code = "import sys; from rebll_avalanche.cli import main; sys.exit(main(sys.argv[1:]))"
    answer = subprocess.run(
        [sys.executable, "-c", code, *command], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert answer.stderr == ""
    # argparse itself passes over what it cannot print.
    assert answer.returncode == (0 if "run" in command else 128 + signal.SIGPIPE)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_number_is_refused_in_a_line_and_at_once(command: str, tmp_path: Path) -> None:
    """For every option that the command's own parser says takes one, without waiting for torch."""
    code = """
import contextlib, io, sys
sys.path.insert(0, sys.argv[2])
from options import VALID, actions, takes_number
from rebll_avalanche.cli import main

for action in filter(takes_number, actions(sys.argv[1])):
    for value in ("x", "", "1,5", "9" * 5000 + "x"):
        option, said = action.option_strings[-1], io.StringIO()
        with contextlib.redirect_stderr(said):
            code = main([sys.argv[1], *VALID[sys.argv[1]], f"{option}={value}"])
        [line] = said.getvalue().splitlines()
        assert code == 2, (option, value, code)
        assert option.lstrip("-") in line and repr(value)[:20] in line, line
        assert len(line) < 2100, line  # told() keeps 2000
assert not {"torch", "avalanche", "numpy"} & set(sys.modules)
"""
    scripts = Path(__file__).parents[1] / "benchmarks" / "reliability"
    answer = subprocess.run(
        [sys.executable, "-c", code, command, str(scripts)],
        cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(rebll_avalanche.__file__).parents[1])},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("command", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    code = (
        "import sys; from rebll_avalanche.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'avalanche', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines()[-1] == "[]"
