"""Verify every byte of a run, a cache or a learner's file against its recorded hashes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from rebll_avalanche.arrays import mapped_array, read_arrays
from rebll_avalanche.benchmarks.cache import ImageCache
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.files import DRAFT
from rebll_avalanche.learner.storing import read_stored
from rebll_avalanche.manifest import changed_files
from rebll_avalanche.models.weights import not_finite
from rebll_avalanche.run_files import (
    CHECKPOINT,
    CONFIG,
    MANIFEST,
    MEMORY,
    METRICS,
    RESULTS,
    SCORES,
    check_no_links,
    read_settings,
)
from rebll_avalanche.running.folder import read_records

IMAGES = "images.npy"
# What a file is, by its suffix.
FILES = {".npz": "arrays", ".sqlite": "known files", ".rebll": "learner"}


@dataclass
class Verdict:
    """Result of verifying one run, one learner or one part of a cache.

    Attributes:
        path: Its path.
        kind: Its kind.
        problems: Damage found; empty if intact.
        notes: Parts that could not be verified.
    """

    path: Path
    kind: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(path: Path) -> list[Verdict]:
    """Verify a run, a learner's file, a part of a cache, or all of these below a folder.

    Raises:
        FileNotFoundError: When there is nothing to verify.
    """
    found = [_verdict(place, kind) for place, kind in _things(path)]
    if not found:
        raise FileNotFoundError(
            f"{path} holds no run, no learner and no cache; give a folder that `rebll run` wrote, a "
            ".rebll file, or a cache folder"
        )
    return found


def _things(path: Path) -> Iterator[tuple[Path, str]]:
    """Runs, learners and parts of caches, outermost first, without anything inside them."""
    if path.is_file():
        if path.suffix in FILES:
            yield path, FILES[path.suffix]
        return
    if not path.is_dir():
        return
    names = {entry.name for entry in path.iterdir()}
    if names & {CONFIG, METRICS, CHECKPOINT, MANIFEST}:
        yield path, "run"
    elif names & {IMAGES, "checksums.npy"}:
        yield path, "image cache"
    else:
        for name in sorted(names):
            if not name.endswith(DRAFT):
                yield from _things(path / name)


def _verdict(path: Path, kind: str) -> Verdict:
    verdict = Verdict(path, kind)
    try:
        CHECKS[kind](path, verdict)
    except (OSError, ValueError, sqlite3.Error) as error:
        verdict.problems.append(str(error))
    return verdict


def _check_images(path: Path, verdict: Verdict) -> None:
    cache = ImageCache(path, mapped_array(path / IMAGES).shape)
    cache.check(range(len(cache)))


def _check_known(path: Path, verdict: Verdict) -> None:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as known:
        (answer,) = known.execute("PRAGMA integrity_check").fetchone()
    if answer != "ok":
        verdict.problems.append(str(answer))


def _check_run(path: Path, verdict: Verdict) -> None:
    check_no_links(path)
    if not (path / CONFIG).is_file():
        verdict.problems.append(f"{CONFIG} is missing")
    else:
        read_settings(path / CONFIG)
    verdict.problems += changed_files(path, every_byte=True)
    if (path / RESULTS).is_file() and not (path / MANIFEST).is_file():
        verdict.notes.append(f"there is no {MANIFEST}, as in runs of earlier versions")
    for name in (SCORES, MEMORY):
        if (path / name).is_file():
            read_arrays(path / name)
    _check_checkpoints(path, verdict)


def _check_checkpoints(path: Path, verdict: Verdict) -> None:
    checkpoints = CheckpointFolder(path / CHECKPOINT)
    moments = checkpoints.moments()
    for moment in moments:
        try:
            state = checkpoints.load(moment)
        except ValueError as error:
            verdict.problems.append(str(error))
            continue
        strategy = state.get("strategy", state)
        if isinstance(strategy, dict) and (wrong := not_finite(strategy.get("model", {}))):
            verdict.problems.append(f"{moment.folder}: {wrong} is not finite")
        if moment == moments[-1] and "records" in state:
            _compare_metrics(path, state["records"], verdict)
    if not moments:
        verdict.notes.append("there is no checkpoint")


def _compare_metrics(path: Path, records: object, verdict: Verdict) -> None:
    """Compare the results with their copy in the newest checkpoint."""
    written = read_records(path)
    # Through JSON, which knows no tuples.
    if json.dumps(written) != json.dumps(json.loads(json.dumps(records))):
        verdict.problems.append(f"{METRICS} differs from the checkpoint")


CHECKS: dict[str, Callable[[Path, Verdict], object]] = {
    "run": _check_run,
    "image cache": _check_images,
    "arrays": lambda path, _: read_arrays(path),
    "known files": _check_known,
    "learner": lambda path, _: read_stored(path),
}
