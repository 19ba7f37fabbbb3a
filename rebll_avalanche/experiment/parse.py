"""Recipes and command lines to configurations; what is wrong is named with what would be right."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from rebll_avalanche.experiment.config import SECTIONS, Config, known_keys
from rebll_avalanche.experiment.methods import METHOD_OPTIONS
from rebll_avalanche.experiment.recipe import (
    Study,
    check_keys,
    check_method,
    closest,
    merged,
    read_recipe,
    without,
)

LOGGERS = ("text", "tensorboard", "wandb")


def settings_parser(prog: str, method: str = "rebll", *, description: str = "") -> ArgumentParser:
    """A parser for a recipe and for every setting, with the parameters of one method."""
    parser = ArgumentParser(prog=prog, description=description, exit_on_error=False)
    parser.add_argument("recipe", nargs="?", help="YAML file with settings")
    parser.add_argument("--profile", help="which of the recipe's profiles")
    parser.add_argument("--data-root", help="the same as --benchmark.root")
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
    """Read ``recipe.yaml --seed 3 --method.alpha 1.0`` and the like, for one run.

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
    settings, study = _recipe_of(argv)
    method = _method_name(argv, settings)
    settings, _ = _own_memory(merged(settings, study.per_method.get(method, {})), method)
    return _parse(argv, settings, method, prog, description, extend)


def parse_study(
    argv: Sequence[str],
    *,
    prog: str,
    description: str = "",
    extend: Callable[[ArgumentParser], None] | None = None,
) -> tuple[Config, Study, Any]:
    """As :func:`parse_settings`, for many runs: also what the recipe varies.

    What the command line says counts more than what the recipe has for single methods.
    """
    settings, study = _recipe_of(argv)
    method = _method_name(argv, settings)
    settings, memory = _own_memory(settings, method)
    config, arguments = _parse(argv, settings, method, prog, description, extend)
    config = dataclasses.replace(config, method={**config.method, **memory})
    arguments.given = [name.removeprefix("--") for name in _given(argv)]
    per_method = {
        name: without(section, arguments.given) for name, section in study.per_method.items()
    }
    return config, dataclasses.replace(study, per_method=per_method), arguments


def checked_config(values: Mapping[str, Any]) -> Config:
    """A configuration from plain values, with every type checked.

    Raises:
        ValueError: Naming what is wrong and the nearest that would be right.
    """
    method = str(values["method"]["name"])
    check_keys(values, known_keys(method), f" of {method}")
    try:
        parsed = settings_parser("", method).parse_object(dict(values))
    except ArgumentError as error:
        raise ValueError(_explain(str(error), method)) from error
    return _config(parsed)


def _recipe_of(argv: Sequence[str]) -> tuple[dict[str, Any], Study]:
    # Flags and positionals are only sure once the parser exists, and the parser needs the method.
    files = [Path(token) for token in argv if token.endswith((".yaml", ".yml"))]
    profile = _last_value(argv, "--profile")
    if files:
        return read_recipe(files[0], profile)
    if profile is not None:
        raise ValueError(f"--profile {profile} belongs to a recipe; give its file first")
    return {}, Study()


def _own_memory(settings: dict[str, Any], method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A recipe's settings for a method, and the size of the memory if that method has none.

    Recipes give it for all methods alike.
    """
    if "mem_size" in METHOD_OPTIONS[method] or "mem_size" not in settings.get("method", {}):
        return settings, {}
    return without(settings, ["method.mem_size"]), {"mem_size": settings["method"]["mem_size"]}


def _parse(
    argv: Sequence[str],
    settings: dict[str, Any],
    method: str,
    prog: str,
    description: str,
    extend: Callable[[ArgumentParser], None] | None,
) -> tuple[Config, Any]:
    parser = settings_parser(prog, method, description=description)
    if extend is not None:
        extend(parser)
    known = known_keys(method)
    check_keys(settings, known, f" of {method}")
    own = [option for action in parser._actions for option in action.option_strings]
    unknown = {name[2:]: None for name in _given(argv) if name not in own}
    check_keys(unknown, known, f" of {method}")
    try:
        defaults = parser.parse_object(settings) if settings else None
        arguments = parser.parse_args(list(argv), namespace=defaults)
    except ArgumentError as error:
        raise ValueError(_explain(str(error), method)) from error
    if arguments.data_root is not None:
        arguments.benchmark.root = arguments.data_root
    return _config(arguments), arguments


def _config(arguments: Any) -> Config:
    values = arguments.clone().as_dict()
    return Config.from_dict({key: values[key] for key in (*SECTIONS, "method", "seed", "loggers")})


def _given(argv: Sequence[str]) -> list[str]:
    """The options that a command line names."""
    return [token.split("=")[0] for token in argv if token.startswith("--")]


def _last_value(argv: Sequence[str], option: str) -> str | None:
    """What a command line says about an option, before it is parsed."""
    value = None
    for token, following in zip(argv, [*argv[1:], ""], strict=False):
        if token == option:
            value = following
        elif token.startswith(f"{option}="):
            value = token.partition("=")[2]
    return value


def _method_name(argv: Sequence[str], recipe: dict[str, Any]) -> str:
    own = str(recipe.get("method", {}).get("name", "rebll"))
    name = _last_value(argv, "--method.name") or own
    check_method(name)
    return name


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
