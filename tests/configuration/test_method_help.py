"""What ``--help`` says about a method's parameters is what the method does."""

from __future__ import annotations

import inspect

import pytest
from avalanche.training.supervised import GEM, MAS

from rebll_avalanche.cli import main
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.method_help import explained_options
from rebll_avalanche.configuration.methods import METHOD_OPTIONS
from rebll_avalanche.running.run import method_as_run


@pytest.mark.parametrize("method", METHOD_OPTIONS)
def test_every_parameter_has_a_text_and_the_default_that_runs_have(method: str) -> None:
    explained = explained_options(method)
    assert list(explained) == list(METHOD_OPTIONS[method])
    assert all(
        len(text) > 5 and not text.startswith("See") and "`" not in text
        for text, _ in explained.values()
    )
    recorded = method_as_run(Config.from_dict({"method": {"name": method}}))["parameters"]
    defaults = {name: default for name, (_, default) in explained.items()}
    assert defaults | recorded == defaults


def test_parameters_of_strategies_of_avalanche_have_their_defaults() -> None:
    strength = inspect.signature(GEM).parameters["memory_strength"].default
    assert explained_options("gem")["memory_strength"].default == strength
    assert (
        explained_options("mas")["alpha"].default
        == inspect.signature(MAS).parameters["alpha"].default
    )


def test_help_shows_the_parameters_of_the_method_that_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--method.name", "lwf", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "the parameters of lwf; --method.name NAME --help shows those of another" in shown
    assert "Of student and teacher; LwF's own default. (type: float, default: 2.0)" in shown
    assert "--method.beta" not in shown
    assert "Path to a configuration file" not in shown
