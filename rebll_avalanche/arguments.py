"""Checks of arguments, whose errors name the argument."""

from __future__ import annotations

import numbers
import os
import sys
from collections.abc import Iterable
from types import UnionType
from typing import Any

from rebll_avalanche.words import brief

LARGEST = sys.float_info.max
LONGEST_PATH = 4096  # on Linux; shorter elsewhere


def check_number(
    name: str, value: Any, low: float = -LARGEST, high: float = LARGEST, *, whole: bool = False
) -> None:
    """Refuse what is not a number between two others, both included.

    Args:
        name: The argument.
        value: What was given.
        low: The smallest.
        high: The largest; never infinity.
        whole: It must be an ``int``.

    Raises:
        ValueError: Naming the argument, the value and what it may be.

    >>> check_number("lr", float("nan"), 0)
    Traceback (most recent call last):
    ValueError: lr must be a finite number of at least 0, got nan
    """
    # NumPy's numbers are accepted; bool is not, although Python counts it as an integer.
    kind = numbers.Integral if whole else numbers.Real
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if is_number and low <= value <= high:
        return
    wanted = "a whole number" if whole else "a finite number"
    if high < LARGEST:
        wanted += f" between {low:g} and {high:g}"
    elif low > -LARGEST:
        wanted += f" of at least {low:g}"
    raise ValueError(f"{name} must be {wanted}, got {brief(value)}")


def check_path(name: str, value: Any, *, needed: bool = False) -> None:
    """Refuse what names no file on any system; None stands for no path, unless one is needed.

    Raises:
        ValueError: Naming the argument and the value.
    """
    if value is None and not needed:
        return
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} must be a path, got {brief(value)}")
    text = os.fspath(value)
    if len(text) > LONGEST_PATH or "\0" in text:
        raise ValueError(f"{name} must be a path, and no file can be called {brief(text)}")


def check_kind(name: str, value: Any, kind: type | UnionType, wanted: str) -> None:
    """Refuse what is not of a type.

    Args:
        name: The argument.
        value: What was given.
        kind: The type.
        wanted: What people call it.

    Raises:
        TypeError: Naming the argument and the value.

    >>> check_kind("model", "resnet", dict, "a torch module")
    Traceback (most recent call last):
    TypeError: model must be a torch module, got 'resnet'
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {wanted}, got {brief(value)}")


def check_callable(name: str, value: Any) -> None:
    """Refuse what cannot be called; None stands for no function.

    Raises:
        TypeError: Naming the argument and the value.
    """
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, got {brief(value)}")


def check_texts(name: str, value: Any) -> None:
    """Refuse what is neither a text nor a list of texts.

    Raises:
        TypeError: Naming the argument and the value.
    """
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Iterable) or not all(isinstance(each, str) for each in listed):
        raise TypeError(f"{name} must be a text or a list of texts, got {brief(value)}")


def check_tensor(name: str, value: Any) -> None:
    """Refuse what is not a tensor of real numbers.

    Raises:
        TypeError: Naming the argument and what was given.
    """
    import torch  # who passes none need not wait for it

    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"{name} must be a tensor, got {type(value).__name__}; convert with torch.as_tensor(...)"
        )
    if value.is_complex():
        raise TypeError(f"{name} must hold real numbers, got {value.dtype}")
