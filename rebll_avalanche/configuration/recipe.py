"""Recipe files: settings of a run, what a table varies, and profiles that change both.

extends: common.yaml        # relative to this file, whose settings take precedence
methods: [rebll, lwf]       # methods to compare; names, or all
scenarios: [B5-C3, B4-C2]
seeds: [0, 1, 2]
sweep: {method.alpha: [0.5, 1.0, null]}         # a row per value; null is the method's default
per_method: {krt: {training: {lr: 1.0e-4}}}     # for one method
profiles:                   # chosen with --profile; partial recipes that override the rest
  small: {training: {epochs: 2}}
training: {epochs: 20}      # and any setting of `rebll run`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rebll_avalanche import plain_yaml
from rebll_avalanche.configuration.config import RECORDS, check_keys, kinds_of, method_section
from rebll_avalanche.configuration.values import listed
from rebll_avalanche.methods import describe, method_names
from rebll_avalanche.words import brief, nearest

ALL = "all"


@dataclass(frozen=True)
class Study:
    """What a table varies; empty values are taken from the recipe's settings.

    Attributes:
        methods: Method names, or "all".
        scenarios: Scenarios such as "B5-C3".
        seeds: Seeds of the runs.
        sweep: Values for dotted settings, varied one setting at a time.
        per_method: Settings for single methods, by method name.
        activation_maps: Number of test images with class activation maps in each method's first run.
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
                describe(name)
        for name, settings in self.per_method.items():
            check_keys(settings, kinds_of(name), f" of {name}")
        for key, values in self.sweep.items():
            if not isinstance(values, list | tuple) or not values:
                raise ValueError(f"sweep.{key} must be a list of values, got {brief(values)}")

    @property
    def method_names(self) -> list[str]:
        """The methods without duplicates, with "all" expanded."""
        names = (method_names() if name == ALL else [name] for name in self.methods)
        return list(dict.fromkeys(name for group in names for name in group))


STUDY_KEYS = tuple(Study.__dataclass_fields__)


def merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two nested dictionaries; the second takes precedence, and lists are replaced, not joined.

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
    """Read the settings of a run and what a table varies from a YAML file.

    A file with profiles needs the name of one of them.
    """
    content = _read(path, ())
    profiles = content.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        raise ValueError(f"profiles in {path} must map names to settings, got {brief(profiles)}")
    for part in (content, *profiles.values()):
        method_section(part)
        others = {key: value for key, value in part.items() if key != "method"}
        check_keys(others, [*kinds_of("rebll"), *STUDY_KEYS, "extends", "profiles"])
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
    """Build a study from plain values; a single value is treated as a list of one."""
    values = dict(given)
    for key in ("methods", "scenarios", "seeds"):
        if key in values:
            values[key] = listed(values[key])
    for key in ("sweep", "per_method"):
        if not isinstance(values.get(key, {}), Mapping):
            raise ValueError(f"{key} must map names to values, got {brief(values[key])}")
    if any(not isinstance(seed, int) for seed in values.get("seeds", ())):
        raise ValueError(f"seeds must be integers, got {brief(values['seeds'])}")
    return Study(**values)


def nested(key: str, value: Any) -> dict[str, Any]:
    """One dotted setting as a nested dictionary.

    >>> nested("training.lr", 1), nested("seed", 2)
    ({'training': {'lr': 1}}, {'seed': 2})
    """
    section, _, name = key.partition(".")
    return {section: {name: value} if name else value}


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """Read a file, merged with the files that it extends."""
    if path.resolve() in above:
        raise ValueError(f"{path} extends itself")
    if not path.is_file():
        raise FileNotFoundError(f"no recipe at {path}")
    try:
        values = plain_yaml.load(path.read_text(encoding="utf-8"), exponents=True) or {}
    except ValueError as error:
        raise ValueError(f"{path} is not readable YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold settings such as 'seed: 0', got {brief(values)}")
    own = {key: value for key, value in values.items() if key not in RECORDS}
    base = own.pop("extends", None)
    if base is None:
        return own
    return merged(_read(path.parent / str(base), (*above, path.resolve())), own)
