"""Run folders: under which other settings a run may go on."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.run_files import METRICS, RESULTS
from rebll_avalanche.running import folder as run_folder
from rebll_avalanche.running.folder import read_config, record_to_continue, write_config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_config(tmp_path, Config().to_dict())
    (tmp_path / METRICS).touch()
    return tmp_path


def check_unchanged(config: Config, folder: Path) -> None:
    run_folder.check_unchanged(record_to_continue(folder), config, folder)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("training", "num_workers", 2),
        ("training", "device", "cpu"),
        ("evaluation", "batch_size", 8),
    ],
)
def test_a_stopped_run_goes_on_with_a_warning_where_bits_may_differ(
    folder: Path, section: str, key: str, value: int | str
) -> None:
    changed = Config.from_dict({section: {key: value}})
    with pytest.warns(UserWarning, match=rf"started with {section}\.{key} .*, now it is {value}"):
        check_unchanged(changed, folder)
    (folder / RESULTS).touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is finished is only read
        check_unchanged(changed, folder)


def test_a_stopped_run_does_not_care_where_things_lie(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        places = {"root": "elsewhere", "image_cache": "there"}
        check_unchanged(Config.from_dict({"benchmark": places, "loggers": ["text"]}), folder)


def test_another_experiment_is_refused_with_every_difference(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"training\.lr: was 0\.001, is 1\.0\n  seed: was 0, is 3"):
        check_unchanged(Config.from_dict({"training": {"lr": 1.0}, "seed": 3}), folder)


def test_a_folder_that_is_no_run_is_told_what_would_be_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is not a run.*give a folder that `rebll run`"):
        read_config(tmp_path)


def test_a_run_that_has_learned_nothing_blocks_no_other(folder: Path) -> None:
    (folder / METRICS).unlink()
    check_unchanged(Config.from_dict({"training": {"lr": 1.0}}), folder)
    (folder / "checkpoint").mkdir()
    with pytest.raises(ValueError, match="belongs to a run with another configuration"):
        check_unchanged(Config.from_dict({"training": {"lr": 1.0}}), folder)


def test_looking_at_a_checkout_writes_nothing_there(tmp_path, monkeypatch):
    """A `git status` that is stopped while it writes the index leaves a lock that blocks every commit."""
    from rebll_avalanche.running.environment import git_state

    program = tmp_path / "git"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho something\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert git_state() == {"commit": "something", "changed": True}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 3
    assert all(line.startswith("--no-optional-locks ") for line in asked)
