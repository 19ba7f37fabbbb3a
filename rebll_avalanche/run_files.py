"""File names in a run folder, and when two runs are the same experiment."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rebll_avalanche import plain_yaml
from rebll_avalanche.errors import DamagedError, UnsafeError

CONFIG = "config.yaml"  # the settings, and everything else that affects results
METRICS = "metrics.jsonl"  # a line per finished experience
RESULTS = "results.csv"  # the same as a table; written after the last experience
SCORES = "scores.npz"  # of the test images, after the newest experience
PICTURE = "picture_"  # in it: before the row of a test image, small copies of the worst
MEMORY = "memory.npz"  # the labels of the memory and where they come from
CHECKPOINT = "checkpoint"  # a folder; from which a stopped run resumes
LOCK = ".lock"  # held by the process that runs
REPORT = "report.html"  # the report of this run
CAMS, CAM_INDEX = "cam", "cam.json"  # a folder of class activation maps, and what is on them
TEXT_LOG, TENSORBOARD, WANDB_ID = "log.txt", "tensorboard", "wandb-id.txt"  # of loggers
MANIFEST = "manifest.json"  # hashes of the files above, of results once the run is finished
LABEL_TABLES = "label_tables.json"  # hashes of its label tables, row by row

# Two runs may differ in settings of both kinds and still be the same experiment. The first do not affect
# results at all; the second only change rounding or the order of random numbers.
SAME_BITS = ("benchmark.root", "benchmark.image_cache", "loggers")
SAME_EXPERIMENT = (
    "evaluation.batch_size",
    "training.device",
    "training.num_workers",
    "training.channels_last",
    "training.compile",
    "training.tuning",
)


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys, as on the command line.

    >>> flat({"method": {"alpha": 1.2}, "seed": 0})
    {'method.alpha': 1.2, 'seed': 0}
    """
    result: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result


def changes(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[dict[str, tuple[Any, Any]], dict[str, tuple[Any, Any]]]:
    """Settings that differ between two configurations, with both values.

    Returns:
        Those that make them different experiments, and those that only change rounding.

    >>> changes({"seed": 0, "training": {"num_workers": 0}}, {"seed": 1, "training": {"num_workers": 2}})
    ({'seed': (0, 1)}, {'training.num_workers': (0, 2)})
    """
    before, after = flat(old), flat(new)
    changed = {
        key: (before.get(key), after.get(key))
        for key in dict.fromkeys([*before, *after])
        if key not in SAME_BITS and before.get(key) != after.get(key)
    }
    bits = {key: changed.pop(key) for key in SAME_EXPERIMENT if key in changed}
    return changed, bits


def config_of(folder: Path) -> Path:
    """Where the configuration of a run is.

    Raises:
        FileNotFoundError: When the folder is not a run.
    """
    path = folder / CONFIG
    if not path.is_file():
        reason = f"is not a run: it has no {CONFIG}" if folder.exists() else "does not exist"
        raise FileNotFoundError(f"{folder} {reason}; give a folder that `rebll run` wrote")
    return path


def read_settings(path: Path) -> dict[str, Any]:
    """The content of a ``config.yaml``.

    Raises:
        DamagedError: When it is not readable, or does not hold settings.
    """
    try:
        content = plain_yaml.load(path.read_text(encoding="utf-8"), exponents=True)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged: {error}; restore a copy of it") from error
    sections = ("benchmark", "model", "method", "training", "evaluation", "method_as_run")
    if not isinstance(content, dict):
        raise DamagedError(f"{path} holds no settings; restore a copy of it")
    for name in (*sections, "weights", "versions", "environment"):
        if not isinstance(content.get(name, {}), dict):
            raise DamagedError(
                f"{path}: {name} must be a section of settings; restore a copy of it"
            )
    return content


def check_no_links(folder: Path) -> None:
    """Refuse a run folder with files that could point outside it, as one from a stranger may have.

    Links that Weights & Biases creates inside its own folder, and that stay there, are accepted.

    Raises:
        UnsafeError: Naming the first link, pipe or device.
    """
    wandb = folder / "wandb"
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                continue
            if wandb in path.parents and path.resolve().is_relative_to(wandb.resolve()):
                continue
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
            raise UnsafeError(
                f"{path} is {kind}, which could lead out of the run folder; delete it, or replace it "
                "by the file itself"
            )
