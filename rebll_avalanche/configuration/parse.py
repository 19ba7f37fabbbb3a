"""Recipes and command lines to configurations; what is wrong is named with what would be right."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from rebll_avalanche.configuration.arguments import kind_of, settings_parser
from rebll_avalanche.configuration.config import SECTIONS, Config, known_keys
from rebll_avalanche.configuration.methods import METHOD_OPTIONS
from rebll_avalanche.configuration.recipe import (
    Study,
    check_keys,
    check_method,
    merged,
    read_recipe,
    without,
)
from rebll_avalanche.run_files import CONFIG
from rebll_avalanche.words import nearest

ENDINGS = (".yaml", ".yml")


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
    file, settings, study = _recipe_of(argv)
    method = _method_name(argv, settings)
    settings, _ = _own_memory(merged(settings, study.per_method.get(method, {})), method)
    return _parse(argv, file, settings, method, prog, description, extend)


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
    file, settings, study = _recipe_of(argv)
    method = _method_name(argv, settings)
    settings, memory = _own_memory(settings, method)
    config, arguments = _parse(argv, file, settings, method, prog, description, extend)
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


def _recipe_of(argv: Sequence[str]) -> tuple[Path | None, dict[str, Any], Study]:
    # Flags and positionals are only sure once the parser exists, and the parser needs the method; so
    # this is a guess, which _check_recipe compares with what the parser has found.
    files = [
        Path(token)
        for before, token in zip(["", *argv], argv, strict=False)
        if token.endswith(ENDINGS) and not token.startswith("--") and not _wants_value(before)
    ]
    profile = _last_value(argv, "--profile")
    if files:
        return files[0], *read_recipe(files[0], profile)
    if profile is not None:
        raise ValueError(f"--profile {profile} belongs to a recipe; give its file first")
    return None, {}, Study()


def _wants_value(token: str) -> bool:
    return token.startswith("--") and "=" not in token


def _check_recipe(given: str | None, read: Path | None) -> None:
    """Refuse a recipe that was not read, which would leave the defaults to run.

    Raises:
        ValueError: Naming the file that was meant, as far as can be known.
    """
    if given is not None and (Path(given) / CONFIG).is_file():
        raise ValueError(f"{given} is a folder; its recipe is {Path(given) / CONFIG}")
    if given is not None and read != Path(given):
        raise ValueError(f"no recipe at {given}; recipes end in {ENDINGS[0]}")
    if given is None and read is not None:
        raise ValueError(f"{read} stands among the values of an option; give the recipe first")


def _own_memory(settings: dict[str, Any], method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A recipe's settings for a method, and the size of the memory if that method has none.

    Recipes give it for all methods alike.
    """
    if "mem_size" in METHOD_OPTIONS[method] or "mem_size" not in settings.get("method", {}):
        return settings, {}
    return without(settings, ["method.mem_size"]), {"mem_size": settings["method"]["mem_size"]}


def _parse(
    argv: Sequence[str],
    file: Path | None,
    settings: dict[str, Any],
    method: str,
    prog: str,
    description: str,
    extend: Callable[[ArgumentParser], None] | None,
) -> tuple[Config, Any]:
    asked = "-h" in argv or "--help" in argv
    parser = settings_parser(prog, method, description=description, explain=asked)
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
    _check_recipe(arguments.recipe, file)
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
    key = re.search(r'key "([\w.]+)"', message)
    value = re.search(r"(?:Got|Given) value: (.*)", message)
    if key is None or value is None:
        return message
    problem = f"{key[1]} cannot be {value[1].strip()!r}"
    kind = kind_of(key[1], method)
    choices = [str(choice) for choice in typing.get_args(kind) if isinstance(choice, str)]
    if choices:
        return f"{problem}; choose {nearest(value[1].strip(), choices)}"
    return f"{problem}; it must be {getattr(kind, '__name__', kind)}"
