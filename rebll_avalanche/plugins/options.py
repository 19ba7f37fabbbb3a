"""Small checks that several plugins share."""

from __future__ import annotations

from typing import Literal

from rebll_avalanche.arguments import check_number
from rebll_avalanche.losses import adaptive_exponent

Exponent = Literal["adaptive", "fixed"]
Reduction = Literal["mean", "class_sum"]


def decay_exponent(kind: str, factor: float, seen_classes: int) -> float:
    """``factor * log(seen)`` if adaptive, ``factor`` itself if fixed.

    >>> decay_exponent("fixed", 2.0, seen_classes=20)
    2.0
    """
    if kind == "fixed":
        return factor
    return adaptive_exponent(factor, seen_classes)


def check_not_negative(**values: float) -> None:
    """Refuse negative numbers, NaN and what is no number."""
    for name, value in values.items():
        check_number(name, value, 0)


def check_positive(**values: float) -> None:
    """Refuse zero as well."""
    check_not_negative(**values)
    for name, value in values.items():
        if value == 0:
            raise ValueError(f"{name} must be positive, got {value}")
