"""Imports timm when first needed, and without torch's compiler where nothing is compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from rebll_avalanche.models.adaptable import is_inference_only

COMPILER = "torch._dynamo"


def import_timm() -> Any:
    """Import timm, which takes a second and is only needed for its own networks."""
    if not is_inference_only():
        import timm
    else:
        with without_compiler():
            import timm
    return timm


@contextmanager
def without_compiler() -> Iterator[None]:
    """Replace torch's compiler by a stub for imports inside, as it takes as long to import as torch.

    torchvision and timm import it to mark functions that must not be compiled. Use this only in processes
    that only predict; a compiler already imported is kept.
    """
    if COMPILER in sys.modules:
        yield
        return
    compiler, utils = ModuleType(COMPILER), ModuleType(f"{COMPILER}.utils")
    stand_ins: dict[str, Any] = {COMPILER: compiler, f"{COMPILER}.utils": utils}
    compiler.__dict__.update(utils=utils, disable=_as_it_is)
    utils.__dict__.update(is_compile_supported=lambda device: False)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]


def _as_it_is(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    return function if function is not None else _as_it_is
