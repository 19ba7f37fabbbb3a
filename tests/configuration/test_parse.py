"""Recipes and command lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebll_avalanche.configuration.config import Config, kinds_of
from rebll_avalanche.configuration.parse import parse_settings, parse_study
from rebll_avalanche.run_files import changes

RECIPE = """
benchmark: {name: scenes, scenario: B4-C2}
method:
  alpha: 1   # an integer where a float is meant
training: {epochs: 3, lr: 0.1}
seed: 2
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return str(path)


def parse(*argv: str) -> Config:
    return parse_settings(argv, prog="rebll run")[0]


def test_recipe_then_command_line_then_defaults(recipe: str) -> None:
    config = parse(recipe, "--seed", "3", "--method.alpha", "1.5", "--training.epochs=7")
    assert (config.seed, config.method, config.training.epochs) == (
        3,
        {"name": "rebll", "alpha": 1.5},
        7,
    )
    assert (config.training.lr, config.benchmark.scenario) == (0.1, "B4-C2")
    assert config.training.batch_size == Config().training.batch_size
    assert parse("--seed", "3", recipe).method == {"name": "rebll", "alpha": 1.0}


def test_without_anything_the_defaults_run() -> None:
    assert parse() == Config()


def test_another_method_has_other_parameters(recipe: str) -> None:
    assert parse("--method.name", "lwf", "--method.temperature", "3").method_options == {
        "temperature": 3.0
    }
    with pytest.raises(ValueError, match=r"method\.beta is not a setting of lwf"):
        parse("--method.name", "lwf", "--method.beta", "1")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--method.alhpa", "1"], r"method\.alhpa is not a setting of rebll.*method\.alpha"),
        (["--traning.lr", "1"], r"traning\.lr is not a setting.*training\.lr"),
        (["--training.schedule", "onecicle"], "cannot be 'onecicle'; choose onecycle, constant"),
        (["--method.exponent", "adaptiv"], "cannot be 'adaptiv'; choose adaptive, fixed"),
        (["--method.name", "rebl"], "no method is called 'rebl'; there are rebll,"),
        (["--method.alpha", "much"], r"method\.alpha cannot be 'much'; it must be float"),
        (["--training.epochs", "0"], r"training\.epochs must be at least 1, got 0"),
        (["--training.lr", ".nan"], r"training\.lr must be at least 0"),
        (["--training.num_workers", "9" * 20], r"training\.num_workers must be at most 256, got 9"),
        (["--training.epochs", "9" * 400], r"training\.epochs must be at most 1000000, got 9"),
        (["--benchmark.scenario", "5-3"], "must look like B5-C3"),
        (["--loggers", "[wand]"], "cannot be 'wand'; choose wandb"),
        (["--evaluation.stream", "valid"], r"needs benchmark\.validation_size"),
        (["--benchmark.name", "csv"], r"needs benchmark\.labels"),
        (["--loggers", "wand"], "cannot be 'wand'; choose wandb"),
        (["--evaluation.thresholds", "[80]"], "must lie between 0 and 1"),
        (["--evaluation.thresholds", "[]"], r"evaluation\.thresholds must hold at least one"),
        (["--evaluation.thresholds", "[high]"], "cannot be 'high'; it must be float"),
        (["--seed", "-1"], "seed must lie between 0 and 4294967295, got -1"),
        (["--benchmark", "a.yaml"], "benchmark is not a setting; the nearest are benchmark"),
        (["--method=a.yaml"], r"method is not a setting of rebll; the nearest are method\.name"),
        (["nosuch"], "no recipe at nosuch; recipes end in .yaml"),
        (["--folder", "some.yaml"], "folder is not a setting"),
        (["--profil", "small"], "profil is not a setting; did you mean profile"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_right(argv: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(*argv)


def test_a_recipe_that_is_not_one_starts_no_other_run(tmp_path: Path, recipe: str) -> None:
    (tmp_path / "notes.md").touch()
    with pytest.raises(ValueError, match=r"no recipe at .*notes\.md; recipes end in \.yaml"):
        parse(str(tmp_path / "notes.md"))
    with pytest.raises(ValueError, match="no recipe at"):
        parse(str(tmp_path))
    (tmp_path / "config.yaml").touch()
    with pytest.raises(ValueError, match=r"is a folder; its recipe is .*config\.yaml"):
        parse(str(tmp_path))


def test_a_value_of_an_option_is_no_recipe(recipe: str) -> None:
    assert parse("--benchmark.root", recipe).training.epochs == Config().training.epochs

    def methods(parser: Any) -> None:
        parser.add_argument("--methods", nargs="+", type=str)

    with pytest.raises(ValueError, match=r"recipe\.yaml was parsed as the value of an option"):
        parse_study(["--methods", "rebll", recipe], prog="rebll table", extend=methods)


def test_a_single_value_stands_for_a_list_of_one(tmp_path: Path) -> None:
    given = parse("--loggers", "tensorboard", "--evaluation.thresholds", "0.5")
    assert (given.loggers, given.evaluation.thresholds) == (("tensorboard",), (0.5,))
    path = tmp_path / "recipe.yaml"
    path.write_text("loggers: tensorboard\nevaluation: {thresholds: 0.5}")
    assert parse(str(path)) == given


def test_the_config_of_a_run_is_a_recipe(tmp_path: Path) -> None:
    config = parse(
        "--method.mem_size", "7", "--evaluation.thresholds", "[0.3]", "--loggers", "[text]"
    )
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config.to_dict() | {"versions": {"torch": "2"}, "git": {}}))
    assert parse(str(path)) == config
    assert changes(config.to_dict(), parse(str(path)).to_dict()) == ({}, {})


def test_where_things_lie_and_what_is_logged_changes_nothing() -> None:
    here, there = (
        parse("--benchmark.root", at, "--benchmark.image_cache", at, "--loggers", loggers).to_dict()
        for at, loggers in (("here", "[]"), ("there", "[text]"))
    )
    assert changes(here, there) == ({}, {})


def test_every_known_key_is_an_option() -> None:
    config = Config().to_dict()
    for key in kinds_of("rebll"):
        section, _, name = key.partition(".")
        assert section in config
        assert section == "method" or not name or name in config[section]


def test_recipes_of_this_repository_are_valid() -> None:
    recipes = sorted((Path(__file__).parents[2] / "benchmarks" / "recipes").glob("*.yaml"))
    assert {path.stem for path in recipes} >= {"scenes", "voc", "coco"}
    for path in recipes:
        assert parse(str(path)).folder_name


def test_refusing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from rebll_avalanche.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'torch', 'avalanche', 'timm', 'numpy'} & set(sys.modules);"
        "sys.exit(f'{code} {sorted(heavy)}')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, "run", "--training.epochs", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stderr.splitlines() == [
        "rebll run: training.epochs cannot be 'x'; it must be int",
        "2 []",
    ]


def test_the_section_may_be_left_out_where_one_has_the_setting():
    config, _ = parse_settings(
        ["--epochs", "3", "--train-size=70", "--image_size", "16"], prog="rebll run"
    )
    assert (config.training.epochs, config.benchmark.train_size) == (3, 70)
    assert config.benchmark.image_size == 16
    with pytest.raises(ValueError, match=r"batch-size is not .*training\.batch_size"):
        parse_settings(["--batch-size", "3"], prog="rebll run")  # training and evaluation have one
    config, _, _ = parse_study(
        ["--scenario", "B4-C2"],
        prog="rebll table",
        extend=lambda parser: parser.add_argument("--scenario", nargs="+", dest="scenarios"),
    )
    assert config.benchmark.scenario != "B4-C2"  # the command's own option goes first


def test_off_is_a_word_where_there_is_a_choice_of_words():
    config, _ = parse_settings(["--training.tuning", "off"], prog="rebll run")
    assert config.training.tuning == "off"
    assert Config.from_dict({"training": {"tuning": False}}).training.tuning == "off"
