"""The light table of parameters says what the methods take."""

from __future__ import annotations

import inspect
import typing
from functools import partial
from typing import Any

import pytest
from avalanche.training.supervised import GEM

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.methods import CEILINGS, METHOD_HEADS, METHOD_OPTIONS
from rebll_avalanche.plugins.rebll import PRESETS
from rebll_avalanche.running.run import method_as_run
from rebll_avalanche.strategies import METHODS
from rebll_avalanche.strategies.baselines import FineTuning, adopt_gem

COMMON = set(inspect.signature(FineTuning).parameters) | {"options", "buffer"}


def parameters(build: Any) -> dict[str, inspect.Parameter]:
    """What the function or class behind a method takes, and Avalanche's strategy inside it."""
    inner = build.func if isinstance(build, partial) else build
    found = dict(inspect.signature(inner).parameters)
    strategies = build.args if isinstance(build, partial) else [GEM] * (build is adopt_gem)
    for wrapped in strategies:
        found |= inspect.signature(wrapped.__init__).parameters
    return found


def test_every_method_is_listed() -> None:
    assert set(METHOD_OPTIONS) == set(METHODS), "add the method to configuration/methods.py"
    assert set(CEILINGS) == {name for name, method in METHODS.items() if method.joint}
    heads = {name: method.head for name, method in METHODS.items() if method.head != "linear"}
    assert heads == METHOD_HEADS


@pytest.mark.parametrize("name", METHODS)
def test_listed_parameters_exist_and_none_is_forgotten(name: str) -> None:
    method, listed = METHODS[name], set(METHOD_OPTIONS[name])
    taken = parameters(method.build)
    assert listed <= set(taken)
    assert ("mem_size" in listed) == method.uses_memory
    if not isinstance(method.build, partial):
        plain = {
            key
            for key, parameter in taken.items()
            if isinstance(parameter.default, bool | int | float | str)
        }
        unused = set() if method.uses_memory else {"mem_size", "replay_weight"}
        assert plain - COMMON - unused <= listed


def test_choices_contain_the_defaults() -> None:
    for name, options in METHOD_OPTIONS.items():
        for option, kind in options.items():
            choices = typing.get_args(kind)
            default = parameters(METHODS[name].build)[option].default
            assert not choices or default in (None, *choices)  # None: as a preset says


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ({"name": "rebll"}, {"preset": "paper", "alpha": 1.2, "beta": 0.7, "policy": "reservoir"}),
        ({"name": "rebll", "preset": "best", "beta": 0.9}, {"beta": 0.9} | PRESETS["best"]),
        ({"name": "bce+kd"}, {"alpha": 0.0, "lambda_akd": 0.15}),
        ({"name": "lwf"}, {"temperature": 2.0}),
    ],
)
def test_a_record_holds_the_values_that_were_used(
    method: dict[str, Any], expected: dict[str, Any]
) -> None:
    parameters = method_as_run(Config.from_dict({"method": method}))["parameters"]
    assert {name: parameters[name] for name in expected} == expected
