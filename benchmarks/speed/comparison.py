"""What every row of the speed table is made of: contestants timed turn by turn, and how they compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: In words.
        ours: What this package takes.
        bound: What the least that would do takes, measured in the same run.
        unit: Of both.
        times: Aim: ``ours`` is at most so many times ``bound``.
        above: Aim: ``ours`` is at most so much above ``bound``. Without either, a row reports only.
    """

    what: str
    ours: float
    bound: float
    unit: str = "ms"
    times: float | None = None
    above: float | None = None

    @property
    def aim(self) -> str:
        """In words."""
        if self.times is not None:
            return "equal" if self.times == 1 else f"at most {self.times:.3g} x"
        return "report" if self.above is None else f"at most +{self.above:g} {self.unit}"

    @property
    def reached(self) -> str:
        """Yes or no, or nothing where a row has no aim."""
        if self.times is not None:
            # A count is equal or wrong; fewer images than there are would be no success either.
            exact = self.times == 1
            return _word(self.ours == self.bound if exact else self.ours <= self.times * self.bound)
        return "" if self.above is None else _word(self.ours - self.bound <= self.above)

    @property
    def ratio(self) -> str:
        """``ours`` over ``bound``, where the latter is not nothing."""
        return f"{self.ours / self.bound:.3f}" if self.bound else ""

    def cells(self) -> list[str]:
        """The line, cell by cell."""
        numbers = [f"{value:.4g} {self.unit}" for value in (self.ours, self.bound)]
        return [self.what, *numbers, self.ratio, self.aim, self.reached]


def _word(yes: bool) -> str:
    return "yes" if yes else "no"


def table(rows: list[Row]) -> str:
    """All rows as Markdown."""
    head = ["what", "ours", "lower bound", "ratio", "aim", "reached"]
    lines = [head, ["---", "---:", "---:", "---:", "---", "---"], *(row.cells() for row in rows)]
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


def turn_by_turn(rounds: int, **contestants: Stopwatch) -> dict[str, float]:
    """The least time of each contestant over some rounds, in each of which all have a turn.

    Noise only ever adds, so the least is the nearest to what the work itself takes.
    """
    best = dict.fromkeys(contestants, float("inf"))
    for contestant in contestants.values():
        contestant()  # warms up caches, thread pools and allocators
    for _ in range(rounds):
        for name, contestant in contestants.items():
            best[name] = min(best[name], contestant())
    return best
