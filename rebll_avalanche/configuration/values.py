"""Parse single settings from text, check their types, and format them for messages."""

from __future__ import annotations

import typing
from functools import cache
from typing import Any, Literal

from rebll_avalanche import plain_yaml
from rebll_avalanche.words import brief, nearest


def listed(value: Any) -> tuple[Any, ...]:
    """The values of a list as a tuple; a single value is treated as a list of one.

    >>> listed([0.8, 0.5]), listed("text")
    ((0.8, 0.5), ('text',))
    """
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def checked(key: str, value: Any, kind: Any) -> Any:
    """Convert a value to the type of its setting; an integer is accepted for a float.

    >>> checked("training.lr", 1, float)
    1.0
    >>> checked("training.tuning", False, Literal["auto", "off"])  # YAML reads off as false
    'off'
    """
    from pydantic import ValidationError  # slow to import, and not needed for --help

    if typing.get_origin(kind) is tuple:
        value = listed(value)
    word = "on" if value is True else "off" if value is False else None
    if typing.get_origin(kind) is Literal and word in typing.get_args(kind):
        value = word
    try:
        return _checker(kind).validate_python(value, strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]["input"]
        raise ValueError(f"{key} cannot be {brief(wrong)}; {_advice(wrong, kind)}") from None


def from_text(key: str, text: str, kind: Any) -> Any:
    """Parse a value from the command line; ``null`` is None.

    >>> from_text("loggers", "[text, wandb]", tuple[str, ...]), from_text("benchmark.root", "12", str)
    (('text', 'wandb'), '12')
    """
    try:
        value = plain_yaml.load(text, exponents=True)
    except ValueError:
        value = text
    if isinstance(value, str) or (value is None and text != "null"):
        value = text  # YAML would strip comments and blanks
    try:
        return checked(key, value, kind)
    except ValueError:
        if str in (kind, *typing.get_args(kind)):
            return text
        raise


def kind_name(kind: Any) -> str:
    """Human-readable name of a type.

    >>> kind_name(tuple[float, ...]), kind_name(str | None), kind_name(Literal["mean", "sum"])
    ('float', 'str', 'mean|sum')
    """
    return "|".join(_alternatives(kind))


@cache
def _checker(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _alternatives(kind: Any) -> list[str]:
    """The valid words for a setting, or the names of its types."""
    if typing.get_origin(kind) is Literal:
        return [str(word) for word in typing.get_args(kind)]
    inner = [part for part in typing.get_args(kind) if part not in (type(None), Ellipsis)]
    return [name for part in inner for name in _alternatives(part)] if inner else [kind.__name__]


def _advice(wrong: Any, kind: Any) -> str:
    names = _alternatives(kind)
    if set(names) <= {"bool", "int", "float", "str"}:
        return f"it must be {' or '.join(names)}"
    return f"choose {nearest(wrong if isinstance(wrong, str) else '', names)}"
