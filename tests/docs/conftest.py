"""The code that builds the site."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "docs" / "tools"


@pytest.fixture(scope="session")
def tools() -> Iterator[None]:
    """Makes the modules of docs/tools importable by their names, and forgets them afterwards."""
    sys.path.insert(0, str(TOOLS))
    yield
    sys.path.remove(str(TOOLS))
    for name, module in list(sys.modules.items()):
        if TOOLS in Path(getattr(module, "__file__", None) or "").parents:
            del sys.modules[name]
