"""List the runs of a table that a recipe describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rebll_avalanche.configuration.config import Config, check_keys, kinds_of
from rebll_avalanche.configuration.recipe import Study, merged, nested
from rebll_avalanche.methods import describe, method_names
from rebll_avalanche.words import nearest


@dataclass(frozen=True)
class Planned:
    """A run of a table.

    Attributes:
        name: Name of its folder; the same settings have the same name in every table.
        config: Settings of the run.
        twin: For a joint method: the run of an earlier scenario, whose results are identical.
    """

    name: str
    config: Config
    twin: str | None = None


def plan(recipe: Config, study: Study) -> list[Planned]:
    """List a run for every method, sweep value, scenario and seed.

    The recipe's method parameters apply to its own method only; other methods use their defaults, except
    for the memory size, which all replay methods share.
    """
    methods = study.method_names or [recipe.method_name]
    scenarios = study.scenarios or (recipe.benchmark.scenario,)
    seeds = study.seeds or (recipe.seed,)
    _check_sweep(study, methods)
    variants = {method: list(_variants(recipe, study, method)) for method in methods}
    planned: list[Planned] = []
    ceilings: dict[str, str] = {}
    for scenario in scenarios:
        for method in methods:
            for suffix, variant in variants[method]:
                benchmark = replace(variant.benchmark, scenario=scenario)
                for seed in seeds:
                    config = replace(variant, benchmark=benchmark, seed=seed)
                    name = f"{config.folder_stem}{suffix}_seed{seed}"
                    shared = f"{method}{suffix}_seed{seed}"
                    twin = ceilings.setdefault(shared, name) if describe(method).joint else name
                    planned.append(Planned(name, config, twin if twin != name else None))
    return planned


def _check_sweep(study: Study, methods: list[str]) -> None:
    for key in study.sweep:
        if not any(key in kinds_of(method) for method in methods):
            owners = [name for name in method_names() if key in kinds_of(name)]
            check_keys({} if owners else {key: None}, kinds_of(methods[0]))
            raise ValueError(
                f"no method of this table has {key} to sweep; methods that have it: "
                f"{nearest(methods[0], owners)}"
            )


def _variants(recipe: Config, study: Study, method: str) -> Iterator[tuple[str, Config]]:
    """Configurations of one method, one per sweep value, with their folder names."""
    own = {
        key: value
        for key, value in recipe.method_options.items()
        if key in describe(method).parameters
        and (method == recipe.method_name or key == "mem_size")
    }
    config = replace(recipe, method={"name": method, **own})
    if method in study.per_method:
        config = Config.from_dict(merged(config.to_dict(), study.per_method[method]))
    swept = {key: values for key, values in study.sweep.items() if key in kinds_of(method)}
    if not swept:
        yield "", config
    for key, values in swept.items():
        for value in values:
            if value is None:
                yield "", config
            else:
                changed = merged(config.to_dict(), nested(key, value))
                yield _suffix(key, value), Config.from_dict(changed)


def _suffix(key: str, value: Any) -> str:
    """Suffix of a folder name that identifies a sweep value.

    >>> _suffix("method.alpha", 0.5), _suffix("model.pretrained", "some/file")
    ('_alpha=0.5', '_pretrained=some-file')
    """
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"_{key.split('.')[-1]}={text.replace('/', '-')}"
