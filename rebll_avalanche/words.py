"""Words on the command line and in messages: choices, the nearest ones, what may be printed."""

from __future__ import annotations

import argparse
import difflib
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

# Maximum characters of a message, which may repeat user input.
LONGEST = 2000


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a value that is not one of the choices.

    Raises:
        ValueError: Naming the argument, the value and the choices.

    >>> check_choice("mode", "disjont", ("overlap", "disjoint"))
    Traceback (most recent call last):
    ValueError: mode must be one of overlap, disjoint, got 'disjont'
    """
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, got {brief(value)}")


def brief(value: Any) -> str:
    """A value for a message: never long, however large it is or how deep.

    >>> brief("x" * 1000), brief([[1] * 9] * 9)
    ("'xxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxx'", '[[...], [...], [...], [...], ...]')
    """
    shown = reprlib.Repr()
    shown.maxstring = shown.maxother = 57
    shown.maxlevel, shown.maxlist, shown.maxdict = 1, 4, 2
    return shown.repr(value)


def many(count: int, one: str) -> str:
    """A number of things.

    >>> many(1, "picture"), many(2, "class")
    ('1 picture', '2 classes')
    """
    return f"{count} {one}" + ("" if count == 1 else "es" if one.endswith("s") else "s")


def check_class_names(names: Any) -> None:
    """Refuse what is not a list of texts; None stands for no names.

    Raises:
        ValueError: Naming the value.
    """
    if names is None:
        return
    if not hasattr(names, "__getitem__") or isinstance(names, str | bytes | Mapping):
        raise ValueError(f"class_names must be a list of texts, got {brief(names)}")
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"class_names must be texts, got {brief(name)}")


def nearest(wrong: str, right: Iterable[str], count: int | None = None, cutoff: float = 0) -> str:
    """The valid words most similar to a wrong one, separated by commas; all of them by default.

    Args:
        wrong: The given word.
        right: The valid words.
        count: Maximum number of words.
        cutoff: Minimum similarity, from 0 to 1.

    >>> nearest("alpah", ["beta", "alpha", "gamma"], count=1)
    'alpha'
    """
    words = list(right)
    count = count or len(words) or 1
    return ", ".join(difflib.get_close_matches(wrong, words, n=count, cutoff=cutoff))


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line, like the rest of the package."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            ValueError: With argparse's own words, which name the argument and the value.
        """
        raise ValueError(f"{message}; see --help")


def printable(text: str) -> str:
    """Escape control characters, which could for example move the cursor of a terminal.

    >>> printable("dog\\x1b[2J")
    'dog\\\\x1b[2J'
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1]
        for letter in text
    )


def told(message: str) -> str:
    """A message for a terminal: :func:`printable`, and of a long one the beginning and the way out.

    >>> len(told("no file " + "x" * 5000 + "; name another")), told("a\\rb")
    (2005, 'a\\\\rb')
    """
    text, half = printable(message), LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]} ... {text[-half:]}"
