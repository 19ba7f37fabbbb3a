"""Parse recipes and command lines into configurations; errors name the nearest valid setting."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rebll_avalanche.configuration.config import Config, check_keys, kinds_of
from rebll_avalanche.configuration.recipe import Study, merged, nested, read_recipe, without
from rebll_avalanche.configuration.sections import SECTIONS
from rebll_avalanche.configuration.values import from_text, kind_name
from rebll_avalanche.methods import describe, method_names
from rebll_avalanche.run_files import CONFIG, flat
from rebll_avalanche.words import Parser

ENDINGS = (".yaml", ".yml")
SINGLE = {
    "seed": "seed of all random numbers in training (type: int, default: 0)",
    "loggers": "additional Avalanche loggers (type: text|tensorboard|wandb, default: )",
}
SHORT = (
    "The section can be omitted if only one has the setting: --epochs 3 means --training.epochs 3."
)
Extend = Callable[[argparse.ArgumentParser], None]


def parse_settings(
    argv: Sequence[str], *, prog: str, description: str = "", extend: Extend | None = None
) -> tuple[Config, Any]:
    """Parse a command line such as ``recipe.yaml --seed 3 --method.alpha 1.0`` for one run.

    Args:
        argv: The command line after the command.
        prog: The command, for messages.
        description: For ``--help``.
        extend: Adds further arguments to the parser.

    Returns:
        The configuration and all arguments.
    """
    arguments, settings, study = _read(argv, prog, description, extend)
    settings = merged(settings, study.per_method.get(arguments.method, {}))
    settings, _ = _own_memory(settings, arguments.method)
    return Config.from_dict(merged(settings, arguments.given)), arguments


def parse_study(
    argv: Sequence[str], *, prog: str, description: str = "", extend: Extend | None = None
) -> tuple[Config, Study, Any]:
    """As :func:`parse_settings`, for many runs: also return what the recipe varies.

    The command line takes precedence over the recipe's settings for single methods.
    """
    arguments, settings, study = _read(argv, prog, description, extend)
    settings, memory = _own_memory(settings, arguments.method)
    config = Config.from_dict(merged(settings, arguments.given))
    config = replace(config, method={**memory, **config.method})
    arguments.given = list(flat(arguments.given))
    per_method = {
        name: without(section, arguments.given) for name, section in study.per_method.items()
    }
    return config, replace(study, per_method=per_method), arguments


def _read(
    argv: Sequence[str], prog: str, description: str, extend: Extend | None
) -> tuple[argparse.Namespace, dict[str, Any], Study]:
    """The arguments, with the ``method`` and the settings ``given``; the recipe, and what it varies."""
    # Every option with a dot is a setting; which ones there are depends on the method.
    options = [token.split("=")[0] for token in argv if token.startswith("--")]
    dotted = {option: "" for option in options if "." in option}
    parser = _parser(prog, description, extend, {"settings": dotted})
    arguments, left = parser.parse_known_args(list(argv))
    texts = {k: v for k, v in vars(arguments).items() if k in SINGLE or "." in k}
    if arguments.data_root is not None:
        texts["benchmark.root"] = arguments.data_root
    unknown = {token.split("=")[0][2:]: "" for token in left if token.startswith("--")}
    settings, study = ({}, Study()) if unknown else _recipe(arguments)
    method = texts.get("method.name") or settings.get("method", {}).get("name", "rebll")
    kinds = kinds_of(method)
    others = [name.replace("_", "-") for name in vars(arguments) if name not in texts]
    check_keys(texts | unknown, [*kinds, *others], f" of {method}")
    if left:
        raise ValueError(f"unexpected argument {left[0]!r}; see --help")
    if arguments.help:
        _parser(prog, description, extend, _explained(method)).print_help()
        raise SystemExit(0)
    arguments.method = method
    arguments.given = {}
    for key, text in texts.items():
        value = from_text(key, text, kinds[key])
        arguments.given = merged(arguments.given, nested(key, value))
    return arguments, settings, study


def _parser(
    prog: str, description: str, extend: Extend | None, groups: Mapping[str, Mapping[str, str]]
) -> argparse.ArgumentParser:
    """Build a parser for a recipe and for groups of options with their help texts, by title."""
    usage = f"{prog} [recipe.yaml] [--setting VALUE ...]"
    parser = Parser(
        usage=usage,
        description=f"{description} {SHORT}".strip(),
        allow_abbrev=False,
        add_help=False,
        conflict_handler="resolve",
    )
    # Before all others, so that a command's own option of the same name replaces it.
    for name, setting in _short_names().items():
        parser.add_argument(
            *dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}")),
            dest=setting,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
    parser.add_argument("-h", "--help", action="store_true", help="show this help and exit")
    parser.add_argument("recipe", nargs="?", help="YAML file with settings")
    parser.add_argument("--profile", help="one of the recipe's profiles")
    parser.add_argument("--data-root", help="the same as --benchmark.root")
    for name, text in SINGLE.items():
        parser.add_argument(f"--{name}", default=argparse.SUPPRESS, metavar="VALUE", help=text)
    if extend is not None:
        extend(parser)
    for title, options in groups.items():
        group = parser.add_argument_group(title)
        for option, text in options.items():
            shown = text.replace("%", "%%")
            group.add_argument(option, default=argparse.SUPPRESS, metavar="VALUE", help=shown)
    return parser


def _short_names() -> dict[str, str]:
    """Settings by their names without the section, where these are unique."""
    settings = [
        (entry.name, f"{s}.{entry.name}") for s in SECTIONS for entry in fields(SECTIONS[s])
    ]
    counts = Counter([name for name, _ in settings] + ["name"])  # the method has a name as well
    return {name: setting for name, setting in settings if counts[name] == 1}


def _explained(method: str) -> dict[str, dict[str, str]]:
    """Help texts, types and defaults of all settings, in groups."""
    import docstring_parser

    groups = {}
    kinds = kinds_of(method)
    for name, section in SECTIONS.items():
        about = docstring_parser.parse(section.__doc__ or "")
        texts = {
            entry.arg_name: " ".join((entry.description or "").split()) for entry in about.params
        }
        groups[str(about.short_description).rstrip(".")] = {
            f"--{name}.{entry.name}": _text(
                texts[entry.name], kinds[f"{name}.{entry.name}"], entry.default
            )
            for entry in fields(section)
        }
    title = (
        f"The method: one of {', '.join(method_names())}. These are the parameters of {method}; "
        "--method.name NAME --help shows those of another"
    )
    groups[title] = {"--method.name": _text("Which method.", str, method)} | {
        f"--method.{name}": _text(f"{entry.text}.", entry.kind, entry.default)
        for name, entry in describe(method).parameters.items()
    }
    return groups


def _text(text: str, kind: Any, default: Any) -> str:
    shown = ", ".join(map(str, default)) if isinstance(default, tuple) else default
    return f"{text} (type: {kind_name(kind)}, default: {'null' if shown is None else shown})"


def _recipe(arguments: argparse.Namespace) -> tuple[dict[str, Any], Study]:
    """Read the recipe named on the command line; refuse other arguments instead of running the defaults."""
    file = arguments.recipe
    if file is None:
        for values in vars(arguments).values():
            for value in values if isinstance(values, list) else ():
                if str(value).endswith(ENDINGS):
                    raise ValueError(
                        f"{value} was parsed as the value of an option; give the recipe first"
                    )
        if arguments.profile is not None:
            raise ValueError(
                f"--profile {arguments.profile} requires a recipe; give its file first"
            )
        return {}, Study()
    if (Path(file) / CONFIG).is_file():
        raise ValueError(f"{file} is a folder; its recipe is {Path(file) / CONFIG}")
    if not file.endswith(ENDINGS):
        raise ValueError(f"no recipe at {file}; recipes end in {ENDINGS[0]}")
    return read_recipe(Path(file), arguments.profile)


def _own_memory(settings: dict[str, Any], method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a recipe's settings into those of the method and a memory size that it does not accept.

    A recipe sets the memory size for all methods alike.
    """
    if "mem_size" in describe(method).parameters or "mem_size" not in settings.get("method", {}):
        return settings, {}
    return without(settings, ["method.mem_size"]), {"mem_size": settings["method"]["mem_size"]}
