"""A method's parameters are told once: where they are used, they are what its plugin says."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest
import torch
from avalanche.training.supervised import GEM, MAS

from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.learner.estimator import RidgeMultiLabel
from rebll_avalanche.methods import describe, method_names, signature_of
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins import AKDPlugin, OnlineRelabelPlugin, RebLLPlugin
from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.plugins.rebll import PRESETS
from rebll_avalanche.strategies import CSC, METHODS, ClosedForm, RebLL
from rebll_avalanche.strategies.generate import generated
from rebll_avalanche.strategies.registry import BUILT_IN


def test_generated_files_are_up_to_date() -> None:
    for path, text in generated().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path.name} is old: python -m rebll_avalanche.strategies.generate"
        )


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_read_is_what_was_described(name: str) -> None:
    assert describe(name) == METHODS[name].description
    for parameter in describe(name).parameters.values():
        assert len(parameter.text) > 5
        assert not parameter.text.startswith("See")
        assert "`" not in parameter.text
        choices = typing.get_args(parameter.kind)
        assert not choices or parameter.default in choices
    assert list(BUILT_IN) == method_names()[: len(BUILT_IN)]


def built(name: str, **options: Any) -> Any:
    model = build_model("small_cnn")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return METHODS[name].build(model=model, optimizer=optimizer, **options)


def used(plugin: RebLLPlugin) -> dict[str, Any]:
    """The values that a plugin works with."""
    halves = vars(plugin.replay) | vars(plugin.akd)
    assert vars(plugin.replay).items() >= {k: halves[k] for k in ("alpha", "exponent")}.items()
    return halves | {
        "mem_size": plugin.memory.mem_size,
        "start_from_teacher": plugin.start_from_teacher,
        "teacher": "closed_form" if "Closed" in type(plugin.teacher).__name__ else "previous",
    }


@pytest.mark.parametrize("given", [{}, {"preset": "best"}, {"preset": "paper"}, {"alpha": 0.4}])
@pytest.mark.parametrize("name", [name for name in BUILT_IN if "rebll" in name or "akd" in name])
def test_a_record_holds_the_values_that_are_used(name: str, given: dict[str, Any]) -> None:
    about = describe(name)
    if not set(given) <= set(about.parameters):
        pytest.skip("has no presets")
    recorded = about.as_run(given)
    values = used(built(name, **given).rebll)
    for parameter in set(recorded) - {"preset", "policy"}:
        assert recorded[parameter] == values[parameter], parameter


def test_presets_supply_what_is_not_given() -> None:
    assert (
        describe("rebll").as_run({"preset": "best", "beta": 0.9}).items()
        >= ({"beta": 0.9} | PRESETS["best"]).items()
    )
    plugin = RebLLPlugin(preset="best", lambda_new=0.1, policy=None)
    assert (plugin.replay.lambda_new, plugin.akd.alpha) == (0.1, 0.0)


def test_a_strategy_has_the_parameters_of_its_parts() -> None:
    halves = {**signature_of(AKDPlugin).parameters, **signature_of(OnlineRelabelPlugin).parameters}
    taken = signature_of(RebLL).parameters
    assert set(halves) <= set(taken)
    assert all(taken[name].default == halves[name].default for name in halves)
    assert {"model", "optimizer", "plugins", "preset"} <= set(taken)
    assert signature_of(CSC).parameters["replay_weight"].default == 0.5
    assert {"adapt", "gamma", "device"} <= set(signature_of(ClosedForm).parameters)
    for parameter in taken.values():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("build", [RebLL, CSC, ClosedForm, METHODS["gem"].build])
def test_an_argument_that_nobody_takes_is_refused(build: Any) -> None:
    model = build_model("small_cnn")
    with pytest.raises(TypeError, match="alhpa"):
        build(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), alhpa=1.0)
    with pytest.raises(TypeError, match="alhpa"):
        RebLLPlugin(alhpa=1.0)


def test_the_closed_form_is_told_in_one_class() -> None:
    told = dict(signature_of(RidgeLearner).parameters)
    del told["num_features"]
    assert dict(signature_of(ClosedFormPlugin).parameters) == told
    texts = describe("closed-form").parameters
    assert {name: texts[name].default for name in told} == {k: v.default for k, v in told.items()}
    assert texts["gamma"].text.startswith("The ridge penalty")
    # scikit-learn reads parameters from an estimator's own constructor
    estimator = signature_of(RidgeMultiLabel).parameters
    for name in ("unknown", "gamma", "calibration"):
        assert estimator[name].default == told[name].default


def test_parameters_of_strategies_of_avalanche_have_their_defaults() -> None:
    strength = inspect.signature(GEM).parameters["memory_strength"].default
    assert describe("gem").parameters["memory_strength"].default == strength
    alpha = inspect.signature(MAS).parameters["alpha"].default
    assert describe("mas").parameters["alpha"].default == alpha


def test_memory_is_for_the_methods_that_offer_its_size() -> None:
    assert METHODS["csc-r"].uses_memory
    assert not METHODS["csc"].uses_memory
    assert built("csc").replay is None
    assert built("csc-r", mem_size=3).replay.memory.mem_size == 3
