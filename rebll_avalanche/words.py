"""Check choices among words and suggest the nearest ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a value that is not one of the choices.

    Raises:
        ValueError: Naming the argument, the value and the choices.

    >>> check_choice("mode", "disjont", ("overlap", "disjoint"))
    Traceback (most recent call last):
    ValueError: mode must be one of overlap, disjoint, got 'disjont'
    """
    words = list(choices)
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, got {value!r}")


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


def printable(text: str) -> str:
    """Escape control characters, which could for example move the cursor of a terminal.

    >>> printable("dog\\x1b[2J")
    'dog\\\\x1b[2J'
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1]
        for letter in text
    )
