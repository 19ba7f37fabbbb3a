"""What every row of the speed table is made of: contestants timed turn by turn, and how they compare."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# One number, or one of each round.
Measured = float | np.ndarray


@dataclass(frozen=True)
class Row:
    """One line of the table. Of several rounds, medians count, also of what is compared round by round.

    Attributes:
        what: In words.
        ours: What this package takes.
        bound: What the least that would do takes, measured in the same rounds.
        unit: Of both.
        times: Aim: ``ours`` is at most so many times ``bound``.
        above: Aim: ``ours`` is at most so much above ``bound``.
        at_most: Aim: ``ours`` is at most this, in its unit. Without any of these, a row reports only.
    """

    what: str
    ours: Measured
    bound: Measured
    unit: str = "ms"
    times: float | None = None
    above: float | None = None
    at_most: float | None = None

    @property
    def aim(self) -> str:
        """In words."""
        if self.at_most is not None:
            return f"at most {self.at_most:g} {self.unit}"
        if self.times is not None:
            return "equal" if self.times == 1 else f"at most {self.times:.3g} x"
        return "report" if self.above is None else f"at most +{self.above:g} {self.unit}"

    @property
    def reached(self) -> str:
        """Yes or no, or nothing where a row has no aim."""
        if self.at_most is not None:
            return _word(float(np.median(self.ours)) <= self.at_most)
        if self.times == 1:
            # A count is equal or wrong; fewer images than there are would be no success either.
            return _word(bool(np.all(self.ours == self.bound)))
        if self.times is not None:
            return _word(float(np.median(self._ratios)) <= self.times)
        if self.above is not None:
            return _word(float(np.median(np.subtract(self.ours, self.bound))) <= self.above)
        return ""

    @property
    def _ratios(self) -> np.ndarray:
        return np.divide(self.ours, self.bound)

    @property
    def ratio(self) -> str:
        """``ours`` over ``bound``, with the middle half of the rounds, where the latter is not nothing."""
        if not np.all(self.bound):
            return ""
        low, middle, high = np.quantile(self._ratios, [0.25, 0.5, 0.75])
        spread = f" ({low:.3f} to {high:.3f})" if np.size(self._ratios) > 1 else ""
        return f"{middle:.3f}{spread}"

    def cells(self) -> list[str]:
        """The line, cell by cell."""
        numbers = [f"{np.median(value):.4g} {self.unit}" for value in (self.ours, self.bound)]
        return [self.what, *numbers, self.ratio, self.aim, self.reached]


def _word(yes: bool) -> str:
    return "yes" if yes else "no"


def table(rows: list[Row]) -> str:
    """All rows as Markdown."""
    head = ["what", "ours", "lower bound", "ratio", "aim", "reached"]
    lines = [head, ["---", "---:", "---:", "---:", "---", "---"], *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def goals(rows: list[Row]) -> str:
    """Rows with an aim, in terms of what they are compared with."""
    lines = [["what", "ratio", "to reach"], ["---", "---:", "---"]]
    for row in rows:
        found = f"{np.median(row.ours):.2f} {row.unit}" if row.at_most is not None else row.ratio
        lines.append([row.what, found, row.aim])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


Stopwatch = Callable[[], float]


def seconds(work: Callable[[], Any]) -> Stopwatch:
    """Work as a contestant: each call does it once and returns the seconds of CPU it took.

    CPU time of one thread, because a wall clock measures what else the machine is doing.
    """

    def run() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return run


def turn_by_turn(rounds: int, **contestants: Stopwatch) -> dict[str, np.ndarray]:
    """The times of each contestant over some rounds, in each of which all have a turn.

    A machine is faster in one minute than in the next, but in a round all have the same machine. Every
    other round goes backwards, so that nobody always comes after the same other.
    """
    for contestant in contestants.values():
        contestant()  # warms up caches, thread pools and allocators
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name in list(contestants)[:: -1 if number % 2 else 1]:
            times[name].append(contestants[name]())
    return {name: np.array(found) for name, found in times.items()}


def peak_memory() -> float:
    """The most memory this process has had so far, in MB.

    Linux counts it anew for a new program in ``VmHWM``; ``ru_maxrss`` would start at the parent's.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024  # type: ignore[index]
