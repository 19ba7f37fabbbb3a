"""Modules that Avalanche adapts to every experience, and that answer without Avalanche.

Avalanche looks for instances of its ``DynamicModule``, and importing that takes as long as everything else
that a trained model needs to answer. So the base class here becomes one when a model is made to be trained:
always, except inside :func:`only_answering`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from rebll_avalanche.protocols import Experience

_answering = False


class Adaptable(nn.Module):
    """Has a method :meth:`adaptation`, which Avalanche calls before every experience."""

    _auto_adapt = True  # Avalanche asks for it, also in modules made before it was imported
    _answers = False

    def __init__(self) -> None:
        if not is_answering():
            adapt_with_avalanche()
        super().__init__()
        self._answers = is_answering()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not state["_answers"]:  # read from a file, maybe, in a process that has made no model
            adapt_with_avalanche()
        super().__setstate__(state)  # type: ignore[no-untyped-call]

    def adaptation(self, experience: Experience) -> None:
        """Take note of an experience; Avalanche calls it in training and in evaluation."""


def adapt_with_avalanche() -> None:
    """Make :class:`Adaptable` one of Avalanche's dynamic modules, with all that derive from it."""
    from avalanche.models import DynamicModule

    if not issubclass(Adaptable, DynamicModule):
        Adaptable.__bases__ = (DynamicModule,)


def is_answering() -> bool:
    """Whether models that are made now will not be trained."""
    return _answering and "avalanche" not in sys.modules


@contextmanager
def only_answering() -> Iterator[None]:
    """Models made inside will predict and not be trained, so they do without Avalanche."""
    global _answering
    before, _answering = _answering, True
    try:
        yield
    finally:
        _answering = before
