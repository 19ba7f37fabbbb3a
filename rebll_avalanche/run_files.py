"""What lies in a run folder under which name, and when two runs are the same experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG = "config.yaml"  # the settings, and what else the results depend on
METRICS = "metrics.jsonl"  # a line per finished experience
RESULTS = "results.csv"  # the same as a table; written when the last experience is over
SCORES = "scores.npz"  # of the test images, after the newest experience
MEMORY = "memory.npz"  # the labels of the memory and where they come from
CHECKPOINT = "checkpoint"  # a folder; from where a stopped run goes on
LOCK = ".lock"  # held by the process that runs
REPORT = "report.html"  # the page of this run alone
CAMS, CAM_INDEX = "cam", "cam.json"  # a folder of class activation maps, and what is on them
TEXT_LOG, TENSORBOARD, WANDB_ID = "log.txt", "tensorboard", "wandb-id.txt"  # of loggers

# Two runs may differ in settings of both kinds and still be the same experiment. The first change no bit
# of a result; under the second, sums are rounded or random numbers drawn in another order.
SAME_BITS = ("benchmark.root", "benchmark.image_cache", "loggers")
SAME_EXPERIMENT = ("evaluation.batch_size", "training.device", "training.num_workers")


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
    """The settings that tell two configurations apart, with both values.

    Returns:
        Those that make them different experiments, and those that only change some bits.

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
        raise FileNotFoundError(
            f"{folder} is not a run: it has no {CONFIG}; give a folder that `rebll run` wrote"
        )
    return path
