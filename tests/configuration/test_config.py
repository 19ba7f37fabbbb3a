"""Configurations from plain values: what is wrong is a short ValueError, whatever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.parse import parse_settings
from rebll_avalanche.configuration.sections import BenchmarkConfig
from rebll_avalanche.plain_yaml import load


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1], r"a configuration must map names to settings, got \[1\]"),
        ({"training": 3}, "training is not a setting; the nearest are training"),
        ({"trainin": {"lr": 1}}, r"trainin\.lr is not a setting; the nearest are training\.lr"),
        ({"training": {"lrr": 1}}, r"training\.lrr is not a setting; the nearest are training\.lr"),
        ({3: 4}, "3 is not a setting"),
        ({"training": {"epochs": "many"}}, r"training\.epochs cannot be 'many'; it must be int"),
        ({"training": {"epochs": 2.5}}, r"training\.epochs cannot be 2\.5; it must be int"),
        ({"training": {"epochs": True}}, r"training\.epochs cannot be True; it must be int"),
        ({"training": {"lr": None}}, r"training\.lr cannot be None; it must be float"),
        ({"training": {"lr": {"a": 1}}}, r"training\.lr cannot be \{'a': 1\}; it must be float"),
        ({"training": {"optimizer": "adm"}}, r"cannot be 'adm'; choose adam, adamw, sgd"),
        ({"benchmark": {"scenario": None}}, r"benchmark\.scenario cannot be None; it must be str"),
        ({"benchmark": {"class_order": 0.5}}, r"cannot be 0\.5; it must be str or int"),
        ({"evaluation": {"thresholds": [0.5, "x"]}}, r"cannot be 'x'; it must be float"),
        ({"method": 3}, "method must hold a name and parameters, .*got 3"),
        ({"method": {"name": 3}}, r"method\.name cannot be 3; it must be str"),
        ({"method": {"name": "lfw"}}, "no method is called 'lfw'; there are lwf"),
        ({"method": {"alpha": "much"}}, r"method\.alpha cannot be 'much'; it must be float"),
        ({"seed": "x"}, "seed cannot be 'x'; it must be int"),
        ({"loggers": ["wand"]}, "loggers cannot be 'wand'; choose wandb"),
    ],
)
def test_what_is_wrong_is_named(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Config.from_dict(values)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("scenario", [None, 5, ["B5-C3"]])
def test_a_scenario_is_a_word_also_where_no_types_are_checked(scenario: Any) -> None:
    with pytest.raises(ValueError, match="must look like B5-C3"):
        BenchmarkConfig(scenario=scenario)


# A few hundred bytes that stand for 9 ** 10 numbers.
LEVELS = [
    f"&{name} [{', '.join([f'*{before}' if before else '1'] * 9)}]"
    for before, name in zip(["", *"abcdefghi"], "abcdefghij", strict=True)
]
BOMB = f"[{', '.join(LEVELS)}]"


@pytest.mark.parametrize(
    "text",
    [
        f"training: {{lr: {BOMB}}}",
        f"seed: {BOMB}",
        f"method: {{alpha: {BOMB}}}",
        f"loggers: {BOMB}",
        f"seeds: {BOMB}",
        f"sweep: {BOMB}",
        f"profiles: {BOMB}",
        f"model: {{hidden: {{a: {BOMB}, b: *j}}}}",
        BOMB,
        "&a [*a]",
        "training: &a {lr: *a}",
        "seed: " + "9" * 4000 + "x",
        "? " + "k" * 2000 + "\n: 1",
    ],
)
def test_what_is_huge_is_refused_in_few_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"is not a setting|cannot be|must|expand") as error:
        parse_settings([str(path)], prog="rebll run")
    assert len(str(error.value)) < 300 + len(str(path))


def test_numbers_as_people_write_them() -> None:
    assert load("[1e-4, 2E5, 1.5e+3, -1e3]", exponents=True) == [1e-4, 2e5, 1.5e3, -1e3]
    assert load("[1e-4x, e5, v1e5]", exponents=True) == ["1e-4x", "e5", "v1e5"]
    config, _ = parse_settings(["--benchmark.class_order", "3"], prog="rebll run")
    assert config.benchmark.class_order == 3  # a seed, as the text of the option says
    config, _ = parse_settings(["--benchmark.root", "my data #1"], prog="rebll run")
    assert config.benchmark.root == "my data #1"


def test_a_set_is_no_list() -> None:
    with pytest.raises(ValueError, match=r"line 1: a set \(!!set\) is no list"):
        load("methods: !!set {rebll}")


def test_the_records_of_a_run_are_passed_over() -> None:
    config = Config.from_dict({"method": {"name": "lwf", "alpha": 2}, "seed": 3})
    records = {"class_names": ["a"], "git": {}, "versions": {"torch": "2"}, "method_as_run": {}}
    assert Config.from_dict(config.to_dict() | records) == config
    assert config.method_options == {"alpha": 2.0}


def test_settings_of_a_run_that_an_earlier_version_has_extended_are_read():
    assert Config.from_dict({"extensions": [{"labels": "more.csv"}]}) == Config.from_dict({})
