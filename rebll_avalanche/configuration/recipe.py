"""Recipe files: settings of a run, what a table varies, and profiles that change both.

extends: common.yaml        # read first, from beside this file; this file has the last word
methods: [rebll, lwf]       # what a table compares; names, or all
scenarios: [B5-C3, B4-C2]
seeds: [0, 1, 2]
sweep: {method.alpha: [0.5, 1.0, null]}         # a row per value; null is the method's own
per_method: {krt: {training: {lr: 1.0e-4}}}     # what one method needs
profiles:                   # chosen with --profile; partial recipes laid over the rest
  small: {training: {epochs: 2}}
training: {epochs: 20}      # and any setting of `rebll run`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rebll_avalanche.configuration.config import known_keys, listed
from rebll_avalanche.configuration.methods import METHOD_OPTIONS
from rebll_avalanche.run_files import flat
from rebll_avalanche.words import nearest

ALL = "all"
# What a run adds to its own config.yaml; such a file is a recipe too.
RECORDS = (
    "class_names",
    "class_order",
    "method_as_run",
    "weights",
    "versions",
    "git",
    "environment",
    "extensions",
)


@dataclass(frozen=True)
class Study:
    """What a table varies; empty means: as the recipe's settings say.

    Attributes:
        methods: Names, or "all".
        scenarios: Such as "B5-C3".
        seeds: Of runs.
        sweep: Dotted settings with the values that they take in turn, one setting at a time.
        per_method: Settings that only one method has, by its name.
        activation_maps: How many test images of each method's first run get class activation maps.
    """

    methods: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    per_method: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    activation_maps: int = 0

    def __post_init__(self) -> None:
        for name in self.methods:
            if name != ALL:
                check_method(name)
        for name, settings in self.per_method.items():
            check_method(name)
            check_keys(settings, known_keys(name), f" of {name}")
        check_keys(self.sweep, _all_keys())
        for key, values in self.sweep.items():
            if not isinstance(values, list | tuple) or not values:
                raise ValueError(f"sweep.{key} must be a list of values, got {values!r}")

    @property
    def method_names(self) -> list[str]:
        """The methods with "all" spelled out, each once."""
        names = (METHOD_OPTIONS if name == ALL else [name] for name in self.methods)
        return list(dict.fromkeys(name for group in names for name in group))


STUDY_KEYS = tuple(Study.__dataclass_fields__)


def check_method(name: str) -> None:
    """Refuse a method that does not exist.

    Raises:
        ValueError: Listing those that do, closest first.
    """
    if name not in METHOD_OPTIONS:
        names = nearest(name, METHOD_OPTIONS)
        raise ValueError(f"no method is called {name!r}; there are {names}")


def check_keys(settings: Mapping[str, Any], known: Sequence[str], whose: str = "") -> None:
    """Refuse settings that do not exist.

    Args:
        settings: Nested or dotted.
        known: Dotted.
        whose: For the message, " of lwf".

    Raises:
        ValueError: Naming the first of them and the nearest that do.
    """
    for key in flat(settings):
        if key not in known:
            section = key.split(".")[0]
            near = [name for name in known if name.split(".")[0] == section] or list(known)
            owner = whose if section == "method" else ""
            raise ValueError(
                f"{key} is not a setting{owner}; the nearest are {nearest(key, near, 3)}"
            )


def merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested dictionaries, the second on top; lists are replaced, not joined.

    >>> merged({"training": {"lr": 1, "epochs": 2}}, {"training": {"lr": 3}})
    {'training': {'lr': 3, 'epochs': 2}}
    """
    result = dict(lower)
    for key, value in upper.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result


def without(nested: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """A nested dictionary without some dotted keys.

    >>> without({"training": {"lr": 1, "epochs": 2}, "seed": 3}, ["training.lr", "seed"])
    {'training': {'epochs': 2}}
    """
    result = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            value = {name: inner for name, inner in value.items() if f"{key}.{name}" not in keys}
        if key not in keys:
            result[key] = value
    return result


def read_recipe(path: Path, profile: str | None = None) -> tuple[dict[str, Any], Study]:
    """The settings of a run in a YAML file, and what a table varies.

    Args:
        path: The file.
        profile: Which of its profiles; needed if it has some.

    Raises:
        FileNotFoundError: When there is no such file.
        ValueError: When it does not hold settings, or not that profile.
    """
    content = _read(path, ())
    profiles = content.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        raise ValueError(f"profiles in {path} must hold settings by name, got {profiles!r}")
    for part in (content, *profiles.values()):
        if not isinstance(part.get("method", {}), dict):
            raise ValueError(f"method must hold a name and parameters, got {part['method']!r}")
        settings = {key: value for key, value in part.items() if key not in STUDY_KEYS}
        check_keys(settings, [*_all_keys(), *STUDY_KEYS, "extends", "profiles"])
    if profile is None and profiles:
        raise ValueError(f"{path} has profiles; choose one: --profile {' or '.join(profiles)}")
    if profile is not None:
        if profile not in profiles:
            names = nearest(profile, profiles) if profiles else "none"
            raise ValueError(f"{path} has no profile {profile!r}; it has {names}")
        content = merged(content, profiles[profile])
    given = {key: content.pop(key) for key in STUDY_KEYS if key in content}
    return content, study_of(given)


def study_of(given: Mapping[str, Any]) -> Study:
    """What a table varies, from plain values; a single one may stand for a list of one."""
    values = dict(given)
    for key in ("methods", "scenarios", "seeds"):
        if key in values:
            values[key] = listed(values[key])
    for key in ("sweep", "per_method"):
        if not isinstance(values.get(key, {}), Mapping):
            raise ValueError(f"{key} must hold names and what belongs to them, got {values[key]!r}")
    if any(not isinstance(seed, int) for seed in values.get("seeds", ())):
        raise ValueError(f"seeds must be whole numbers, got {list(values['seeds'])}")
    return Study(**values)


@cache
def _all_keys() -> list[str]:
    """The settings that a run of some method has."""
    return sorted({key for name in METHOD_OPTIONS for key in known_keys(name)})


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """A file on top of those that it extends."""
    if path.resolve() in above:
        raise ValueError(f"{path} extends itself")
    if not path.is_file():
        raise FileNotFoundError(f"no recipe at {path}")
    try:
        values = yaml.safe_load(path.read_text()) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not readable YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold settings such as 'seed: 0', got {values!r}")
    own = {key: value for key, value in values.items() if key not in RECORDS}
    base = own.pop("extends", None)
    if base is None:
        return own
    return merged(_read(path.parent / str(base), (*above, path.resolve())), own)
