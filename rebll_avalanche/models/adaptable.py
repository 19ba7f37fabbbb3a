"""Modules that Avalanche adapts to every experience, and that predict without Avalanche.

Avalanche looks for instances of its ``DynamicModule``, and importing that takes as long as everything else
that a prediction needs. So the base class here becomes a ``DynamicModule`` only when a model is built for
training: always, except inside :func:`inference_only`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from rebll_avalanche.protocols import Experience

_inference_only = False


class Adaptable(nn.Module):
    """Has a method :meth:`adaptation`, which Avalanche calls before every experience."""

    _auto_adapt = True  # read by Avalanche, also from modules made before it was imported
    _answers = False

    def __init__(self) -> None:
        if not is_inference_only():
            adapt_with_avalanche()
        super().__init__()
        self._answers = is_inference_only()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not state["_answers"]:  # perhaps unpickled in a process that has built no model
            adapt_with_avalanche()
        super().__setstate__(state)  # type: ignore[no-untyped-call]

    def adaptation(self, experience: Experience) -> None:
        """Adapt to an experience; Avalanche calls it in training and in evaluation."""


def adapt_with_avalanche() -> None:
    """Make :class:`Adaptable` and its subclasses Avalanche dynamic modules."""
    from avalanche.models import DynamicModule

    if not issubclass(Adaptable, DynamicModule):
        Adaptable.__bases__ = (DynamicModule,)


def is_inference_only() -> bool:
    """Whether models built now are for prediction only."""
    return _inference_only and "avalanche" not in sys.modules


@contextmanager
def inference_only() -> Iterator[None]:
    """Build models for prediction only, without importing Avalanche."""
    global _inference_only
    before, _inference_only = _inference_only, True
    try:
        yield
    finally:
        _inference_only = before
