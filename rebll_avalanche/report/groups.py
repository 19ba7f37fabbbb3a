"""Group runs: seeds of one experiment, experiments of one setting, sweeps of a parameter."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rebll_avalanche.report.names import BENCHMARKS, percent, value
from rebll_avalanche.report.runs import Run

Combine = Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over seeds; the deviation of a single run is NaN."""

    mean: float
    std: float
    count: int

    @staticmethod
    def of(values: Iterable[float | None]) -> Spread | None:
        """Mean and deviation of the given values without None; None if there are none.

        >>> spread = Spread.of([0.5, 1.0, None])
        >>> spread.mean, round(spread.std, 3), spread.count
        (0.75, 0.354, 2)
        """
        known = np.array([v for v in values if v is not None and not math.isnan(v)], dtype=float)
        if not len(known):
            return None
        std = float(known.std(ddof=1)) if len(known) > 1 else math.nan
        return Spread(float(known.mean()), std, len(known))


@dataclass(frozen=True)
class Group:
    """The same experiment with different seeds."""

    label: str
    runs: tuple[Run, ...]

    @property
    def method(self) -> str:
        """The method's name in the registry."""
        return self.first.method

    @property
    def ceiling(self) -> bool:
        """Whether it is joint training, an upper bound."""
        return self.first.joint

    @property
    def first(self) -> Run:
        """The run with the lowest seed, shown as representative."""
        return self.runs[0]

    def last(self, metric: str) -> Spread | None:
        """A metric after the last experience, over seeds."""
        return Spread.of(run.last.metrics.get(metric) for run in self.runs)

    def total(self, field: str, combine: Combine) -> Spread | None:
        """A cost of whole runs, a field of :class:`Step`, combined over experiences and then over seeds."""
        costs = [[getattr(step, field) for step in run.steps] for run in self.runs]
        known = [[cost for cost in run if cost is not None] for run in costs]
        return Spread.of(combine(run) for run in known if run)

    def curve(self, metric: str, field: str = "metrics") -> list[tuple[int, Spread]]:
        """``(classes seen, metric)`` after each experience that some seed has finished."""
        found: dict[int, list[float | None]] = {}
        for step in (step for run in self.runs for step in run.steps):
            found.setdefault(step.classes_seen, []).append(getattr(step, field).get(metric))
        spreads = ((seen, Spread.of(values)) for seen, values in sorted(found.items()))
        return [(seen, spread) for seen, spread in spreads if spread is not None]

    def class_ap(self) -> tuple[list[str], np.ndarray]:
        """Class names in order of learning and mean AP ``[classes, experiences]``, NaN before learning."""
        names = max((list(run.last.per_class_ap) for run in self.runs), key=len)
        width = max(len(run.steps) for run in self.runs)
        values = np.full((len(self.runs), len(names), width), np.nan)
        for layer, run in zip(values, self.runs, strict=True):
            for column, step in enumerate(run.steps):
                layer[:, column] = [step.per_class_ap.get(name, np.nan) for name in names]
        return names, np.ma.masked_invalid(values).mean(axis=0).filled(np.nan)


@dataclass(frozen=True)
class Setting:
    """Experiments that share data and backbone and may be compared."""

    title: str
    groups: tuple[Group, ...]

    @property
    def competitors(self) -> list[Group]:
        """All but the ceiling."""
        return [group for group in self.groups if not group.ceiling]

    @property
    def shown(self) -> list[Group]:
        """Competitors shown in figures: without sweep points that have fewer seeds than others.

        Many sweep points would hide the other methods.
        """
        side = {
            group.label
            for sweep in sweeps_of(self)
            for _, group in sweep.points
            if len(group.runs) < max(len(other.runs) for _, other in sweep.points)
        }
        return [group for group in self.competitors if group.label not in side]

    @property
    def experiences(self) -> int:
        """Number of experiences finished by the longest run."""
        return max(len(run.steps) for group in self.groups for run in group.runs)

    def best(self, metric: str, *, lower_is_better: bool = False) -> set[str]:
        """Labels of the competitors with the best printed number, ties included; empty for a single one."""
        values = {
            group.label: float(percent(spread.mean))
            for group in self.competitors
            if (spread := group.last(metric))
        }
        if len(values) < 2:
            return set()
        target = min(values.values()) if lower_is_better else max(values.values())
        return {label for label, printed in values.items() if printed == target}


@dataclass(frozen=True)
class Sweep:
    """Experiments of one method that differ in exactly one of its parameters."""

    parameter: str
    points: list[tuple[float, Group]]

    @property
    def title(self) -> str:
        """Method and parameter."""
        return f"{self.points[0][1].first.label}: {self.parameter}"


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """Sort runs into settings and groups; labels name what distinguishes variants of a method."""
    by_setting: dict[str, list[Run]] = {}
    for run in runs:
        by_setting.setdefault(_key(run.setting), []).append(run)
    titles = _titles([members[0].setting for members in by_setting.values()])
    return [
        Setting(title, tuple(_groups(members)))
        for title, members in zip(titles, by_setting.values(), strict=True)
    ]


def sweeps_of(setting: Setting) -> list[Sweep]:
    """Every numeric method parameter in which otherwise equal experiments differ."""
    families: dict[tuple[str, str], list[tuple[float, Group]]] = {}
    for group in setting.groups:
        choices = group.first.choices
        for key, number in choices.items():
            numeric = isinstance(number, int | float) and not isinstance(number, bool)
            if key.startswith("method.") and numeric:
                rest = {name: other for name, other in choices.items() if name != key}
                families.setdefault((key, _key(rest)), []).append((float(number), group))
    return [
        Sweep(key.removeprefix("method."), sorted(points, key=lambda point: point[0]))
        for (key, _), points in families.items()
        if len({number for number, _ in points}) >= 2
    ]


def _groups(runs: list[Run]) -> list[Group]:
    by_choice: dict[str, list[Run]] = {}
    for run in runs:
        by_choice.setdefault(_key(run.choices), []).append(run)
    members = [sorted(same, key=lambda run: run.seed) for same in by_choice.values()]
    groups = []
    for same in members:
        rivals = [other[0].choices for other in members if other[0].method == same[0].method]
        different = differing(rivals)
        said = [f"{key.split('.')[-1]} {value(same[0].choices.get(key))}" for key in different]
        label = same[0].label + (f", {', '.join(said)}" if said else "")
        groups.append(Group(label, tuple(same)))
    return sorted(groups, key=_rank)


def _rank(group: Group) -> tuple[bool, float]:
    """Sort key: joint training first, then by last mAP."""
    last = group.last("mAP")
    return not group.ceiling, -last.mean if last else math.inf


def differing(records: Sequence[dict[str, Any]]) -> list[str]:
    """The keys that do not have the same value everywhere.

    >>> differing([{"alpha": 1.2, "beta": 0.7}, {"alpha": 0.8, "beta": 0.7}])
    ['alpha']
    """
    names = dict.fromkeys(name for record in records for name in record)
    return [name for name in names if len({_key(record.get(name)) for record in records}) > 1]


def _titles(settings: list[dict[str, Any]]) -> list[str]:
    """Benchmark, scenario, and further differences between settings."""
    main = ("benchmark.name", "benchmark.scenario")
    others = [name for name in differing(settings) if name not in main]
    titles = []
    for setting in settings:
        name, scenario = (str(setting.get(key, "")) for key in main)
        extra = [f"{key.split('.')[-1]} {value(setting.get(key))}" for key in others]
        titles.append(", ".join([f"{BENCHMARKS.get(name, name)} {scenario}".strip(), *extra]))
    return titles


def _key(record: Any) -> str:
    return json.dumps(record, sort_keys=True, default=str)
