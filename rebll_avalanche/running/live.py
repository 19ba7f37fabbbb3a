"""Live progress of many runs on a terminal: a bar of finished runs, and a line per running one."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType
from typing import Any

from tqdm import tqdm

# Lines kept free for the bar, for the count of hidden runs, and for the prompt.
SPARE_LINES = 4


class LiveTable:
    """Progress of all runs; without a terminal, only messages are printed.

    Args:
        total: Number of runs.
        unit: Name of a run in the bar.
    """

    def __init__(self, total: int, *, unit: str = "run") -> None:
        self._quiet = not sys.stderr.isatty()
        self._bar: Any = tqdm(total=total, unit=unit, disable=self._quiet, dynamic_ncols=True)
        self._rows: dict[str, tuple[str, ...]] = {}
        self._lines: list[Any] = []

    def __enter__(self) -> LiveTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for line in reversed(self._lines):
            line.close()
        self._bar.close()

    def show(self, name: str, *cells: str) -> None:
        """Show the progress of a run."""
        self._rows[name] = cells
        self._draw()

    def end(self, name: str) -> None:
        """Count a finished run and remove its line."""
        self._rows.pop(name, None)
        self._bar.update()
        self._draw()

    def write(self, text: str) -> None:
        """Print a permanent message."""
        self._bar.write(text, file=sys.stderr)

    def _draw(self) -> None:
        if self._quiet:
            return
        size = shutil.get_terminal_size()
        texts = _aligned([(name, *cells) for name, cells in self._rows.items()])
        room = max(1, size.lines - SPARE_LINES)
        if len(texts) > room:
            texts[room:] = [f"and {len(texts) - room} more"]
        while len(self._lines) < len(texts):
            self._lines.append(
                tqdm(bar_format="{desc}", position=len(self._lines) + 1, leave=False)
            )
        for line, text in zip(self._lines, texts + [""] * len(self._lines), strict=False):
            line.set_description_str(text[: size.columns - 1])


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows as lines of columns.

    >>> _aligned([("rebll", "here"), ("er", "there")])
    ['rebll  here', 'er     there']
    """
    count = max(map(len, rows), default=0)
    filled = [(*row, *[""] * (count - len(row))) for row in rows]
    widths = [max(map(len, column)) for column in zip(*filled, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in filled
    ]
