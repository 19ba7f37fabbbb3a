"""The parser of every command that takes a recipe: one option per setting."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import docstring_parser  # comes with jsonargparse[signatures]
from jsonargparse import ArgumentParser

from rebll_avalanche.configuration.config import SECTIONS
from rebll_avalanche.configuration.method_help import explained_options
from rebll_avalanche.configuration.methods import METHOD_OPTIONS

LOGGERS = ("text", "tensorboard", "wandb")


def settings_parser(
    prog: str, method: str = "rebll", *, description: str = "", explain: bool = False
) -> ArgumentParser:
    """A parser for a recipe and for every setting, with the parameters of one method.

    Args:
        prog: The command, for messages.
        method: Whose parameters.
        description: For ``--help``.
        explain: Whether somebody will read about the method's parameters. What is not given on a
            command line is up to the method, so a parser that parses knows no defaults of these.
    """
    parser = ArgumentParser(prog=prog, description=description, exit_on_error=False)
    parser.add_argument("recipe", nargs="?", help="YAML file with settings")
    parser.add_argument("--profile", help="which of the recipe's profiles")
    parser.add_argument("--data-root", help="the same as --benchmark.root")
    for name, section in SECTIONS.items():
        _add_section(parser, name, section)
    _add_method(parser, method, explain)
    parser.add_argument("--seed", type=int, default=0, help="of everything random in training")
    parser.add_argument(
        "--loggers",
        type=_or_one(tuple[typing.Literal[LOGGERS], ...]),  # type: ignore[valid-type]
        default=(),
        help="Avalanche's loggers beside the run's own files",
    )
    return parser


def kind_of(key: str, method: str) -> Any:
    """The type of a setting's values; of those of a list, if it takes one.

    >>> kind_of("training.lr", "rebll"), kind_of("evaluation.thresholds", "rebll")
    (<class 'float'>, <class 'float'>)
    """
    section, _, name = key.partition(".")
    if section == "method":
        return METHOD_OPTIONS[method].get(name, str)
    if section in SECTIONS:
        kind = typing.get_type_hints(SECTIONS[section])[name]
        return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
    return typing.Literal[LOGGERS] if section == "loggers" else int


# Each option is added by itself: a class added as a whole would bring an option along for a file with
# settings of its section, and recipes are the one way to give a file.
def _add_section(parser: ArgumentParser, name: str, section: type[Any]) -> None:
    about = docstring_parser.parse(section.__doc__ or "")
    texts = {entry.arg_name: entry.description or "" for entry in about.params}
    kinds = typing.get_type_hints(section)
    group = parser.add_argument_group((about.short_description or name).rstrip("."), name=name)
    for entry in dataclasses.fields(section):
        group.add_argument(
            f"--{name}.{entry.name}",
            type=_or_one(kinds[entry.name]),
            default=entry.default,
            help=" ".join(texts[entry.name].split()),
        )


def _add_method(parser: ArgumentParser, method: str, explain: bool) -> None:
    about = (
        f"One of {', '.join(METHOD_OPTIONS)}. These are the parameters of {method}; "
        "--method.name NAME --help shows those of another."
    )
    group = parser.add_argument_group("The method", about, name="method")
    group.add_argument("--method.name", type=str, default=method, help="Which method.")
    explained = explained_options(method) if explain else {}
    for name, kind in METHOD_OPTIONS[method].items():
        text, default = explained.get(name, ("", None))
        group.add_argument(
            f"--method.{name}",
            type=kind | None if default is None else kind,
            default=default,
            help=f"{text}.",
        )


def _or_one(kind: Any) -> Any:
    """For a list, also a single value, which stands for a list of one."""
    return typing.get_args(kind)[0] | kind if typing.get_origin(kind) is tuple else kind
