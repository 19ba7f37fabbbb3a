"""Recipe files: what they extend, their profiles, what a table varies."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.parse import parse_settings, parse_study
from rebll_avalanche.configuration.recipe import read_recipe
from rebll_avalanche.configuration.study import plan

COMMON = """
training: {epochs: 20, lr: 0.1}
seeds: [0, 1]
profiles:
  large: {benchmark: {image_size: 224}}
  small: {benchmark: {image_size: 96}, training: {epochs: 2}, per_method: {lwf: {training: {lr: 0.2}}}}
"""
OWN = """
extends: common.yaml
methods: [rebll, lwf]
scenarios: B4-C2
training: {lr: 0.5}
profiles:
  small: {seeds: [7]}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "common.yaml").write_text(COMMON)
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    return path


def test_extended_then_own_then_profile(recipe: Path) -> None:
    settings, study = read_recipe(recipe, "small")
    assert settings == {"training": {"epochs": 2, "lr": 0.5}, "benchmark": {"image_size": 96}}
    assert (study.methods, study.scenarios, study.seeds) == (("rebll", "lwf"), ("B4-C2",), (7,))
    settings, study = read_recipe(recipe, "large")
    assert settings == {"training": {"epochs": 20, "lr": 0.5}, "benchmark": {"image_size": 224}}
    assert study.seeds == (0, 1)


def test_one_run_of_a_study(recipe: Path) -> None:
    argv = [str(recipe), "--profile", "small", "--data-root", "here"]
    config, arguments = parse_settings(argv, prog="rebll run")
    assert (config.method_name, config.training.lr) == ("rebll", 0.5)
    assert (config.benchmark.root, arguments.profile) == ("here", "small")
    config, _ = parse_settings([*argv, "--method.name", "lwf"], prog="rebll run")
    assert config.training.lr == 0.2
    config, study, _ = parse_study([*argv, "--training.lr=0.3"], prog="rebll table")
    assert config.training.lr == 0.3
    assert study.per_method == {"lwf": {"training": {}}}  # as for a single run
    _, study, _ = parse_study(argv, prog="rebll table")
    assert study.per_method == {"lwf": {"training": {"lr": 0.2}}}


@pytest.mark.parametrize(
    ("text", "profile", "message"),
    [
        (OWN, None, "has profiles; choose one: --profile large or small"),
        (OWN, "smal", "has no profile 'smal'; it has small, large"),
        ("seed: 1", "small", "has no profile 'small'; it has none"),
        ("metods: [lwf]", None, "metods is not a setting; did you mean methods"),
        ("profiles: {small: {training: {lrr: 1}}}", "small", r"training\.lrr is not a setting"),
        ("profiles: {a: {trainin: {lr: 1}}, b: {}}", "b", r"trainin\.lr is not a setting"),
        ("profiles: [small]", "small", "profiles in .* must map names to settings"),
        ("profiles: {small: {method: lwf}}", "small", "method must hold a name"),
        ("methods: [lfw]", None, "no method is called 'lfw'; there are lwf"),
        ("extends: own.yaml", None, "extends itself"),
        ("- 1", None, "must hold settings"),
        ("seed: [", None, "not readable YAML: .*, line 1, column 8"),
        ("sweeps: {method.alpha: [1]}", None, "sweeps is not a setting; did you mean sweep"),
    ],
)
def test_what_is_wrong_is_named(recipe: Path, text: str, profile: str | None, message: str) -> None:
    recipe.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_recipe(recipe, profile)


def test_missing_files(recipe: Path) -> None:
    recipe.write_text("extends: none.yaml")
    with pytest.raises(FileNotFoundError, match=r"no recipe at .*none\.yaml"):
        read_recipe(recipe)
    with pytest.raises(ValueError, match="requires a recipe"):
        parse_settings(["--profile", "small"], prog="rebll run")


PAPER = Path(__file__).parents[2] / "benchmarks" / "paper"
SHARED = ("profiles", "voc", "coco", "notes")


def test_recipes_of_the_paper() -> None:
    recipes = {path.stem: path for path in PAPER.glob("*.yaml") if path.stem not in SHARED}
    assert set(recipes) >= {*(f"table{n}" for n in range(1, 7)), "figure2b", "figure3", "figure4"}
    for path in recipes.values():
        for profile in ("paper", "small", "whole", "whole-lite2", "features"):
            settings, study = read_recipe(path, profile)
            config = Config.from_dict(settings)
            runs = plan(config, study)
            assert len(runs) == len({run.name for run in runs})
            memories = {run.config.method.get("mem_size") for run in runs} - {None}
            assert memories <= {40 if config.benchmark.name == "voc" else 400}


@pytest.mark.parametrize("profile", ["paper", "small", "whole", "whole-lite2", "features"])
@pytest.mark.parametrize("name", ["voc", "coco"])
def test_values_of_the_profiles(name: str, profile: str) -> None:
    argv = [str(PAPER / f"{name}.yaml"), "--profile", profile, "--data-root", "data"]
    config, _ = parse_settings(argv, prog="rebll run")
    assert config == Config.from_dict(config.to_dict())
    assert (config.benchmark.name, config.benchmark.root) == (name, "data")


def test_every_row_of_the_paper_has_a_recipe() -> None:
    with open(PAPER / "figures.csv", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) > 60
    recipes = {
        where: read_recipe(PAPER / f"{where}.yaml", "paper") for where in {r["where"] for r in rows}
    }
    for row in rows:
        settings, study = recipes[row["where"]]
        assert settings["benchmark"]["name"] == row["benchmark"]
        assert row["scenario"] in study.scenarios
        assert row["method"] in study.method_names
