"""A run folder: its lock, its settings and its progress; without importing torch."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import ChangedError, DamagedError
from rebll_avalanche.files import replacing_folder, write_text
from rebll_avalanche.manifest import check_manifest, write_manifest
from rebll_avalanche.methods import describe
from rebll_avalanche.run_files import (
    CAMS,
    CHECKPOINT,
    CONFIG,
    LABEL_TABLES,
    LOCK,
    MANIFEST,
    MEMORY,
    METRICS,
    REPORT,
    RESULTS,
    SCORES,
    TENSORBOARD,
    TEXT_LOG,
    WANDB_ID,
    changes,
    check_no_links,
    config_of,
    read_settings,
)
from rebll_avalanche.running.environment import versions

WAY_OUT = "restore a copy of the file, or delete the folder and run again"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder; the operating system releases the lock when the process ends.

    Raises:
        UnsafeError: When the folder contains a link.
        ValueError: When another process holds the lock, or the path is a file.
    """
    if folder.is_file():
        raise ValueError(f"{folder} is a file; choose another name for the run folder")
    folder.mkdir(parents=True, exist_ok=True)
    check_no_links(folder)
    path = folder / LOCK
    try:
        # Data-loading workers do not inherit the lock: filelock closes it in forked processes.
        lock = FileLock(path, timeout=0).acquire()
    except Timeout:
        owner = ""
        with suppress(OSError, ValueError):  # on Windows a locked file cannot be read
            owner = path.read_text()
        raise ValueError(
            f"{folder} is in use by another run (process {owner or 'unknown'}); wait for it, "
            "stop it, or choose another folder"
        ) from None
    with lock:
        with suppress(OSError):
            path.write_text(str(os.getpid()))
        yield


def wait_until_free(folder: Path, *, timeout: float) -> None:
    """Wait for a process that has a run folder locked to end; afterwards it may still be in use."""
    if (folder / LOCK).is_file():
        with suppress(Timeout), FileLock(folder / LOCK, timeout=timeout):
            pass


def has_learned(folder: Path) -> bool:
    """Whether the folder holds results or checkpoints that other settings must not be mixed with."""
    return is_finished(folder) or (folder / METRICS).is_file() or (folder / CHECKPOINT).is_dir()


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder has learned its last experience."""
    return (folder / RESULTS).is_file()


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``; none if the run has not finished an experience."""
    path = folder / METRICS
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines if line.strip()]
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: {error}; {WAY_OUT}") from error
    if not all(isinstance(record, dict) and "metrics" in record for record in records):
        raise DamagedError(f"{path} does not hold results; {WAY_OUT}")
    return records


def finished_records(folder: Path) -> list[dict[str, Any]]:
    """Read the results of a finished run and check that they are unchanged.

    Raises:
        DamagedError: When a file was modified since, or is empty.
    """
    check_manifest(folder)
    records = read_records(folder)
    if not records:
        raise DamagedError(f"{folder / METRICS} is empty, but the run is finished; {WAY_OUT}")
    return records


def read_config(folder: Path) -> dict[str, Any]:
    """All of ``config.yaml``.

    Raises:
        FileNotFoundError: When the folder is not a run.
        DamagedError: When the file holds no settings.
    """
    path = config_of(folder)
    content = read_settings(path)
    try:
        Config.from_dict(content)
    except ValueError as error:  # it names a setting; say whose
        raise DamagedError(f"{path}: {error}; {WAY_OUT}") from error
    return content


def recorded_shape(folder: Path, content: dict[str, Any]) -> tuple[int, ...]:
    """The shape of one input of a run, as recorded in its ``config.yaml``.

    Raises:
        DamagedError: When it is not recorded.
    """
    try:
        return tuple(int(side) for side in content["environment"]["input_shape"])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(
            f"{folder / CONFIG} lacks the model's input shape (environment.input_shape); {WAY_OUT}"
        ) from error


def write_config(folder: Path, content: dict[str, Any]) -> None:
    """Write ``config.yaml``."""
    write_text(folder / CONFIG, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def record_to_continue(folder: Path) -> dict[str, Any]:
    """The ``config.yaml`` of a run to continue; empty if there is none.

    A run that ended before its first checkpoint has nothing to continue and may be restarted with other
    settings.
    """
    return read_config(folder) if (folder / CONFIG).is_file() and has_learned(folder) else {}


def check_owner(record: dict[str, Any], config: Config, folder: Path) -> dict[str, tuple[Any, Any]]:
    """Refuse to continue another experiment.

    Args:
        record: The settings of the run to continue; empty if they are not known.
        config: The settings to run now.
        folder: The run.

    Returns:
        Settings that only change rounding: what they were, and what they are.

    Raises:
        ChangedError: With every other difference.
    """
    if not record:
        return {}
    changed, bits = changes(Config.from_dict(record).to_dict(), config.to_dict())
    if changed:
        lines = [f"{key}: was {was!r}, is {now!r}" for key, (was, now) in changed.items()]
        raise ChangedError(
            f"{folder} belongs to a run with another configuration:\n  "
            + "\n  ".join(lines)
            + "\nrestore these settings, choose another --folder, or delete this one"
        )
    return bits


def check_unchanged(record: dict[str, Any], config: Config, folder: Path) -> None:
    """:func:`check_owner`, and warn if the numbers of a run that goes on may change slightly."""
    bits = check_owner(record, config, folder)
    if is_finished(folder):
        return
    for package, number in versions().items():
        before = record.get("versions", {}).get(package, number)
        if before != number:
            _warn(folder, package, before, number, "results may differ in their last digits")
    for key, (was, now) in bits.items():
        _warn(folder, key, was, now, "rounding and random numbers may differ from here on")


def with_first_defaults(record: dict[str, Any], config: Config, folder: Path) -> Config:
    """The settings of a run to continue, with those defaults of its method that have changed since.

    Another version may have other defaults. A run keeps those that it began with, which its ``config.yaml``
    records, so that all its experiences are learned alike.
    """
    first = record.get("method_as_run", {}).get("parameters", {})
    now = describe(config.method_name).as_run(config.method_options)
    kept = {name: first[name] for name in now if name in first and first[name] != now[name]}
    for name, value in kept.items():
        warnings.warn(
            f"{folder} continues with method.{name} {value}, the default when it was started; "
            f"now it is {now[name]}",
            stacklevel=3,
        )
    return replace(config, method={**config.method, **kept})


def _warn(folder: Path, what: str, was: Any, now: Any, so: str) -> None:
    warnings.warn(f"{folder} was started with {what} {was}, now it is {now}: {so}", stacklevel=4)


def clear(folder: Path) -> None:
    """Remove only the files that a run has written; those that identify it go last."""
    results = (RESULTS, MANIFEST, METRICS, SCORES, MEMORY, REPORT, TEXT_LOG, WANDB_ID)
    for name in (*results, CHECKPOINT, CAMS, TENSORBOARD, LABEL_TABLES, CONFIG):
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)


def copy_for_scenario(source: Path, target: Path, scenario: str) -> None:
    """Copy a joint method's results to another scenario; they are the same for all scenarios."""
    with replacing_folder(target) as draft:
        # Files of a run are replaced, never modified in place, so both folders may share them.
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
        if (draft / MANIFEST).is_file():
            write_manifest(draft)
