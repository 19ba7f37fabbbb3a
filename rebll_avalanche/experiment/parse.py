"""Recipes and command lines to configurations; what is wrong is named with what would be right."""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from rebll_avalanche.experiment.config import (
    BenchmarkConfig,
    Config,
    EvaluationConfig,
    ModelConfig,
    TrainingConfig,
    flat,
    known_keys,
)
from rebll_avalanche.experiment.methods import METHOD_OPTIONS

SECTIONS = {
    "benchmark": BenchmarkConfig,
    "model": ModelConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
}
LOGGERS = ("text", "tensorboard", "wandb")
# What a run adds to its own config.yaml; such a file is a recipe too.
RECORDS = (
    "class_names",
    "class_order",
    "method_as_run",
    "weights",
    "versions",
    "git",
    "environment",
    "extensions",
)


def closest(wrong: str, right: Sequence[str], count: int = 3) -> str:
    """The nearest valid values, nearest first.

    >>> closest("alhpa", ["beta", "alpha", "mem_size"], count=1)
    'alpha'
    """
    return ", ".join(difflib.get_close_matches(wrong, right, n=count, cutoff=0))


def read_recipe(path: Path) -> dict[str, Any]:
    """The settings in a YAML file.

    Raises:
        FileNotFoundError: When there is none.
        ValueError: When it does not hold settings.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no recipe at {path}")
    try:
        values = yaml.safe_load(path.read_text()) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not readable YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold settings such as 'seed: 0', got {values!r}")
    return {key: value for key, value in values.items() if key not in RECORDS}


def settings_parser(prog: str, method: str = "rebll", *, description: str = "") -> ArgumentParser:
    """A parser for a recipe and for every setting, with the parameters of one method."""
    parser = ArgumentParser(prog=prog, description=description, exit_on_error=False)
    parser.add_argument("recipe", nargs="?", help="YAML file with settings")
    for name, section in SECTIONS.items():
        parser.add_class_arguments(section, name)
    options = [
        (name, kind | None, dataclasses.field(default=None))
        for name, kind in METHOD_OPTIONS[method].items()
    ]
    parameters = dataclasses.make_dataclass(
        "Method", [("name", str, dataclasses.field(default=method)), *options]
    )
    parameters.__doc__ = f"The method ({', '.join(METHOD_OPTIONS)}) and the parameters of {method}."
    parser.add_class_arguments(parameters, "method")
    parser.add_argument("--seed", type=int, default=0, help="of everything random in training")
    parser.add_argument(
        "--loggers",
        type=list[typing.Literal[LOGGERS]],  # type: ignore[valid-type]
        default=[],
        help="Avalanche's loggers beside the run's own files",
    )
    return parser


def parse_settings(
    argv: Sequence[str],
    *,
    prog: str,
    description: str = "",
    extend: Callable[[ArgumentParser], None] | None = None,
) -> tuple[Config, Any]:
    """Read ``recipe.yaml --seed 3 --method.alpha 1.0`` and the like.

    Args:
        argv: The command line after the command.
        prog: The command, for messages.
        description: For ``--help``.
        extend: Adds further arguments to the parser.

    Returns:
        The configuration and all arguments.

    Raises:
        ValueError: Naming what is wrong and the nearest that would be right.
    """
    # Flags and positionals are only sure once the parser exists, and the parser needs the method.
    files = [Path(token) for token in argv if token.endswith((".yaml", ".yml"))]
    recipe = read_recipe(files[0]) if files else {}
    method = _method_name(argv, recipe)
    parser = settings_parser(prog, method, description=description)
    if extend is not None:
        extend(parser)
    known = known_keys(method)
    _check_keys([key for key in flat(recipe) if key not in known], known, method)
    own = [option for action in parser._actions for option in action.option_strings]
    given = [token.split("=")[0] for token in argv if token.startswith("--")]
    _check_keys([token[2:] for token in given if token not in own], known, method)
    try:
        defaults = parser.parse_object(recipe) if recipe else None
        arguments = parser.parse_args(list(argv), namespace=defaults)
    except ArgumentError as error:
        raise ValueError(_explain(str(error), method)) from error
    values = arguments.clone().as_dict()
    return Config.from_dict(
        {key: values[key] for key in (*SECTIONS, "method", "seed", "loggers")}
    ), arguments


def _method_name(argv: Sequence[str], recipe: dict[str, Any]) -> str:
    section = recipe.get("method", {})
    if not isinstance(section, dict):
        raise ValueError(f"method must hold a name and parameters, got {section!r}")
    name = str(section.get("name", "rebll"))
    for token, following in zip(argv, [*argv[1:], ""], strict=True):
        if token == "--method.name":
            name = following
        elif token.startswith("--method.name="):
            name = token.partition("=")[2]
    if name not in METHOD_OPTIONS:
        raise ValueError(
            f"no method is called {name!r}; there are "
            f"{closest(name, list(METHOD_OPTIONS), len(METHOD_OPTIONS))}"
        )
    return name


def _check_keys(unknown: Sequence[str], known: Sequence[str], method: str) -> None:
    for key in unknown:
        section = key.split(".")[0]
        near = [name for name in known if name.split(".")[0] == section] or list(known)
        whose = f" of {method}" if section == "method" else ""
        raise ValueError(f"{key} is not a setting{whose}; the nearest are {closest(key, near)}")


def _explain(message: str, method: str) -> str:
    """The parser's message in words, with the nearest choices where there are choices."""
    found = re.search(
        r'key "(?P<key>[\w.]+)":(?P<problem>.*)(Got|Given) value: (?P<value>.*)', message, re.S
    )
    if found is None:
        return message
    key, value = found["key"], found["value"].strip()
    section, _, name = key.partition(".")
    if section == "method":
        kind = METHOD_OPTIONS[method].get(name)
    elif section in SECTIONS:
        kind = typing.get_type_hints(SECTIONS[section])[name]
    else:
        kind = typing.Literal[LOGGERS] if section == "loggers" else int
    choices = [str(choice) for choice in typing.get_args(kind) if isinstance(choice, str)]
    if choices:
        return f"{key} cannot be {value!r}; choose {closest(value, choices, len(choices))}"
    return f"{key} cannot be {value!r}; it must be {getattr(kind, '__name__', kind)}"
