"""What those who write runs and those who read them agree upon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG, METRICS, RESULTS = "config.yaml", "metrics.jsonl", "results.csv"

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
