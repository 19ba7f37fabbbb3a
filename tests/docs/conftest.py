"""The code that builds the site."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "docs" / "tools"


@pytest.fixture(scope="session")
def tools() -> Iterator[None]:
    """Makes the modules of docs/tools importable by their names, and forgets them afterwards."""
    known = set(sys.modules)
    sys.path.insert(0, str(TOOLS))
    yield
    sys.path.remove(str(TOOLS))
    for name in set(sys.modules) - known:
        if importlib.util.find_spec(name.split(".")[0]) is None:
            del sys.modules[name]
