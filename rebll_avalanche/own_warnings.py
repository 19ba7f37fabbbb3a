"""Which warnings people see, for the command line and for the runs of a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent


def pass_on_warnings(tell: Callable[[str], None]) -> None:
    """From now on, tell warnings of this package; those of others stay out of the way."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        # By folder, not by name: an environment may lie in a folder that is called like this package.
        if category is UserWarning and PACKAGE in Path(filename).parents:
            tell(str(message))

    warnings.showwarning = show  # type: ignore[assignment]
