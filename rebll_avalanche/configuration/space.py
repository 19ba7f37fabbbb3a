"""Which settings a search may change, and between which values: ``training.lr=1e-4..1e-2:log``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rebll_avalanche.configuration.config import Config, check_keys, kinds_of
from rebll_avalanche.configuration.recipe import merged, nested
from rebll_avalanche.configuration.values import from_text

NUMBER = r"[-+]?\d+(?:\.\d+|\.(?!\.))?(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(:log)?")
FORMS = "LOW..HIGH, LOW..HIGH:log, or values separated by commas"
# Scores of different images, or of different numbers, say nothing about one another.
FIXED = ("benchmark.", "evaluation.", "seed", "loggers", "method.name")
FREE = ("benchmark.features", "benchmark.image_size")


@dataclass(frozen=True)
class Choice:
    """Some values of one setting.

    Attributes:
        values: All of them, or the ends of a range.
        between: Everything between two values may be chosen as well.
        log: On a logarithmic scale.
    """

    values: tuple[Any, ...]
    between: bool = False
    log: bool = False

    @property
    def whole(self) -> bool:
        """A range of whole numbers."""
        return all(isinstance(value, int) for value in self.values)


def parse_space(texts: Sequence[str], config: Config) -> dict[str, Choice]:
    """Parse texts such as ``training.lr=1e-4..1e-2:log``; every value must be valid in the configuration.

    >>> parse_space(["training.lr=1e-4..1e-2:log", "model.bn_mode=train,frozen"], Config())
    {'training.lr': Choice(values=(0.0001, 0.01), between=True, log=True), \
'model.bn_mode': Choice(values=('train', 'frozen'), between=False, log=False)}
    """
    kinds = kinds_of(config.method_name)
    space: dict[str, Choice] = {}
    for text in texts:
        key, equals, shown = text.partition("=")
        if not equals or not shown:
            raise ValueError(f"--space {text!r} must look like SETTING={FORMS}")
        check_keys({key: None}, kinds, f" of {config.method_name}")
        if key.startswith(FIXED) and not key.startswith(FREE):
            raise ValueError(
                f"--space cannot change {key}: scores would no longer be comparable; use `rebll table` to "
                "compare methods, scenarios and seeds"
            )
        if key in space:
            raise ValueError(f"--space has {key} twice")
        space[key] = _choice(key, shown, kinds[key])
        for value in space[key].values:
            Config.from_dict(merged(config.to_dict(), nested(key, value)))
    return space


def _choice(key: str, shown: str, kind: Any) -> Choice:
    found = RANGE.fullmatch(shown)
    if found is None:
        values = [from_text(key, part.strip(), kind) for part in shown.split(",")]
        if len(set(values)) != len(values) or len(values) < 2:
            raise ValueError(f"--space {key}={shown} needs at least two different values: {FORMS}")
        return Choice(tuple(values))
    low, high = (from_text(key, end, kind) for end in found.groups()[:2])
    if not all(isinstance(end, int | float) for end in (low, high)):
        raise ValueError(f"--space {key} takes words, not a range: list them, separated by commas")
    if not low < high or (found[3] and low <= 0):
        least = " and be above 0" if found[3] else ""
        raise ValueError(f"--space {key}={shown}: the range must begin below its end{least}")
    return Choice((low, high), between=True, log=bool(found[3]))
