"""Choices among words: refusing a wrong one, and naming those that come near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a value that is none of the choices.

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
    """The words that come nearest to a wrong one, separated by commas; all of them by default.

    Args:
        wrong: What was given.
        right: What could have been given.
        count: At most so many.
        cutoff: From 0 to 1: how similar a word must be.

    >>> nearest("alpah", ["beta", "alpha", "gamma"], count=1)
    'alpha'
    """
    words = list(right)
    count = count or len(words) or 1
    return ", ".join(difflib.get_close_matches(wrong, words, n=count, cutoff=cutoff))


def printable(text: str) -> str:
    """A text for a terminal: control characters, which could move the cursor or worse, are spelled out.

    >>> printable("dog\\x1b[2J")
    'dog\\\\x1b[2J'
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1]
        for letter in text
    )
