"""What starting costs: imports, `rebll --help`, and streams of the size of VOC and COCO."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from comparison import Row, Stopwatch, seconds, turn_by_turn

from rebll_avalanche import multilabel_benchmark


def _process(*arguments: str) -> Stopwatch:
    """A fresh interpreter as a contestant, by the CPU time it takes."""

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def import_rows(rounds: int = 7) -> list[Row]:
    """An interpreter that does nothing beside one that knows this package."""
    taken = turn_by_turn(
        rounds,
        nothing=_process("-c", "pass"),
        package=_process("-c", "import rebll_avalanche"),
        command=_process("-m", "rebll_avalanche.cli", "--help"),
    )
    return [
        Row("import rebll_avalanche", taken["package"], taken["nothing"], "s", above=0.3),
        Row("rebll --help", taken["command"], taken["nothing"], "s", above=0.3),
    ]


def stream_row(
    name: str, counts: tuple[int, int], classes: int, scenario: str, rounds: int = 3
) -> Row:
    """Streams from label matrices of a data set's size, beside reading these matrices."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{count}.npy") for count in counts]
        for path, count in zip(paths, counts, strict=True):
            drawn = rng.random((count, classes), dtype=np.float32) < 0.036
            np.save(path, drawn.astype(np.float32))
        # Stands in for the pictures, which no stream looks at.
        pictures = [np.zeros((count, 1)) for count in counts]

        def read() -> list[np.ndarray]:
            return [np.load(path) for path in paths]

        build: Callable[[], object] = lambda: multilabel_benchmark(  # noqa: E731
            *zip(pictures, read(), strict=True), scenario
        )
        taken = turn_by_turn(rounds, ours=seconds(build), read=seconds(read))
    return Row(f"streams of {name}, {scenario}", taken["ours"], taken["read"], "s", above=1)


def rows() -> list[Row]:
    """Everything that happens before the first batch."""
    return [
        stream_row("VOC 2007 (5,011 + 4,952 x 20)", (5_011, 4_952), 20, "B5-C3"),
        stream_row("COCO 2014 (82,081 + 40,504 x 80)", (82_081, 40_504), 80, "B40-C10"),
        *import_rows(),
    ]
