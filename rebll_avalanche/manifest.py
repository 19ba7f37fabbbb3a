"""Hashes of the files of a run, to detect later edits and damage.

``manifest.json`` holds a SHA-256 of the files that a run writes first, and once it is finished of every
result file. It detects accidents, but not an attacker who edits it as well. Runs of earlier
versions have none, or none before they are finished, and are not checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rebll_avalanche.errors import DamagedError
from rebll_avalanche.files import file_hash, write_text
from rebll_avalanche.run_files import (
    CONFIG,
    LABEL_TABLES,
    MANIFEST,
    MEMORY,
    METRICS,
    RESULTS,
    SAME_BITS,
    SCORES,
    flat,
    read_settings,
)

WRITTEN_FIRST = (CONFIG, LABEL_TABLES)  # and never again
COVERED = (*WRITTEN_FIRST, METRICS, RESULTS, SCORES, MEMORY)


def write_manifest(
    folder: Path, coming: Mapping[str, str] | None = None, *, names: Sequence[str] = COVERED
) -> None:
    """Write the hashes of a run's files.

    Args:
        folder: The run.
        coming: Texts that are about to be written, by file name.
        names: The files, where they exist.
    """
    hashes = {name: file_hash(folder / name) for name in names if (folder / name).is_file()}
    for name, text in (coming or {}).items():
        hashes[name] = hashlib.sha256(text.encode("utf-8")).hexdigest()
    content = {"sha256": hashes, "settings": _settings_hash(folder / CONFIG)}
    write_text(folder / MANIFEST, json.dumps(content, indent=1) + "\n")


def changed_files(
    folder: Path, *, names: Sequence[str] = COVERED, every_byte: bool = False
) -> list[str]:
    """List problems with the files of a run; none if there is no manifest.

    Args:
        folder: The run.
        names: Look at these files only.
        every_byte: Also report a ``config.yaml`` that was rewritten with equivalent settings, for
            example because the data set has moved.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return []
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        hashes, settings = dict(content["sha256"]), content["settings"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return [f"{MANIFEST} is damaged"]
    problems = []
    if every_byte and _settings_hash(folder / CONFIG) != settings:
        problems.append(f"{MANIFEST} and {CONFIG} name different settings")
    for name, wanted in hashes.items():
        if name not in COVERED:
            problems.append(f"{MANIFEST} is damaged")
        elif name not in names:
            continue
        elif not (folder / name).is_file():
            problems.append(f"{name} is missing")
        elif file_hash(folder / name) != wanted:
            same = name == CONFIG and not every_byte and _settings_hash(folder / name) == settings
            if not same:
                problems.append(f"{name} changed since the run wrote it")
    return problems


def check_manifest(folder: Path, names: Sequence[str] = COVERED) -> None:
    """Refuse files of a run that were modified.

    Raises:
        DamagedError: With the names of the files.
    """
    problems = changed_files(folder, names=names)
    if problems:
        raise DamagedError(
            f"{folder} cannot be trusted: {', '.join(problems)}; restore the files, or "
            f"delete {MANIFEST} to accept them as they are"
        )


def _settings_hash(path: Path) -> str:
    """A hash of ``config.yaml`` without settings that do not affect results, such as data paths."""
    try:
        settings = flat(read_settings(path))
        kept = {str(key): value for key, value in settings.items() if key not in SAME_BITS}
        text = json.dumps(kept, sort_keys=True, default=str)
    except (OSError, ValueError, TypeError):  # TypeError: keys that no run writes, such as dates
        return ""
    return hashlib.sha256(text.encode()).hexdigest()
