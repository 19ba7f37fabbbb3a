"""A run folder: who holds it, what it was started with, how far it is; without importing torch."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.files import replacing_folder, write_text
from rebll_avalanche.run_files import (
    CHECKPOINT,
    CONFIG,
    LOCK,
    METRICS,
    RESULTS,
    changes,
    config_of,
)
from rebll_avalanche.running.environment import versions


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder; the system gives it back when the process ends, however it ends.

    Raises:
        ValueError: When another live process has it, or it is a file.
    """
    if folder.is_file():
        raise ValueError(f"{folder} is a file; choose another name for the folder of the run")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    try:
        # A data-loading worker does not inherit it: filelock closes it in forked processes.
        lock = FileLock(path, timeout=0).acquire()
    except Timeout:
        owner = ""
        with suppress(OSError):  # Windows lets nobody else read a locked file
            owner = path.read_text()
        raise ValueError(
            f"{folder} is in use by another run (process {owner or 'unknown'}); wait for it, "
            "stop it, or choose another folder"
        ) from None
    with lock:
        with suppress(OSError):
            path.write_text(str(os.getpid()))
        yield


def has_learned(folder: Path) -> bool:
    """Whether there is anything that a run of other settings must not be mixed with."""
    return (folder / METRICS).is_file() or (folder / CHECKPOINT).is_dir()


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder has learned its last experience."""
    return (folder / RESULTS).is_file()


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``; none if the run has not finished an experience."""
    path = folder / METRICS
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def read_config(folder: Path) -> dict[str, Any]:
    """All of ``config.yaml``.

    Raises:
        FileNotFoundError: When the folder is not a run.
    """
    content: dict[str, Any] = yaml.safe_load(config_of(folder).read_text(encoding="utf-8"))
    return content


def write_config(folder: Path, content: dict[str, Any]) -> None:
    """Write ``config.yaml``."""
    write_text(folder / CONFIG, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def check_unchanged(config: Config, folder: Path) -> None:
    """Refuse to go on with a run as another experiment; warn if its numbers may come out otherwise.

    A run that ended before its first checkpoint has nothing to go on with and may be started anew.

    Raises:
        ValueError: With every difference.
    """
    if not ((folder / CONFIG).is_file() and has_learned(folder)):
        return
    saved = read_config(folder)
    changed, bits = changes(Config.from_dict(saved).to_dict(), config.to_dict())
    if changed:
        lines = [f"{key}: was {was!r}, is {now!r}" for key, (was, now) in changed.items()]
        raise ValueError(
            f"{folder} belongs to a run with another configuration:\n  "
            + "\n  ".join(lines)
            + "\nrun it as it was, choose another --folder, or delete this one"
        )
    if is_finished(folder):
        return
    for package, number in versions().items():
        before = saved.get("versions", {}).get(package, number)
        if before != number:
            _warn(folder, package, before, number, "results may differ in their last digits")
    for key, (was, now) in bits.items():
        _warn(folder, key, was, now, "roundings and random numbers may be others from here on")


def _warn(folder: Path, what: str, was: Any, now: Any, so: str) -> None:
    warnings.warn(f"{folder} was started with {what} {was}, now it is {now}: {so}", stacklevel=4)


def copy_for_scenario(source: Path, target: Path, scenario: str) -> None:
    """The same results under another scenario, for a method that sees all classes at once."""
    with replacing_folder(target) as draft:
        # Files of a run are replaced, never changed in place, so both folders may share them.
        shutil.copytree(
            source,
            draft,
            copy_function=os.link,
            ignore=shutil.ignore_patterns(LOCK),
            dirs_exist_ok=True,
        )
        content = read_config(draft)
        content["benchmark"]["scenario"] = scenario
        write_config(draft, content)
