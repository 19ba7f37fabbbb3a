"""Try to break runs and caches, and count what happens.

    python benchmarks/reliability/run.py [--kills 200] [--calls 200] [--faults 200] [--flips 500]
        [--cache-flips 200] [--writers 20] [--soak 100] [--methods rebll er] [--seed 0]

Every campaign adds a row to ``counts.csv`` beside this file. A trial ends in one of

- same: the run went on, or the data were read or built again, to the very same bits;
- refused: an error in one line says what is wrong; nothing wrong was shown;
- lost: the folder is of no use any more although nothing but the process or one write has failed;
- traceback: an error that nobody has foreseen;
- silent: other results than those of an undisturbed run, without a word.

The last three must be 0; the exit code says whether they are.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COUNTS = HERE / "counts.csv"
SAME, LOST, SILENT = "same", "lost", "silent"
ENDS = (SAME, "refused", LOST, "traceback", SILENT)
BAD = (LOST, "traceback", SILENT)


def with_failing_disk(root: Path) -> None:
    """Start this program again behind the shim, which is compiled now."""
    if "RELIABILITY_SHIM" in os.environ:
        return
    shim = root / "faults.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        sys.exit("disk faults need a C compiler; install one, or give --faults 0")
    command = [compiler, "-O1", "-shared", "-fPIC", str(HERE / "faults.c"), "-o", str(shim), "-ldl"]
    subprocess.run(command, check=True)
    environment = os.environ | {"LD_PRELOAD": str(shim), "RELIABILITY_SHIM": str(shim)}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def main() -> int:
    """Run every campaign that is asked for; 1 if anything was lost or silently wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs at random times")
    parser.add_argument("--calls", type=int, default=200, help="SIGKILLs at random file calls")
    parser.add_argument("--faults", type=int, default=200, help="failing writes, of four kinds")
    parser.add_argument("--flips", type=int, default=500, help="flipped bits in runs")
    parser.add_argument("--cache-flips", type=int, default=200, help="flipped bits in caches")
    parser.add_argument("--writers", type=int, default=20, help="pairs of runs in one folder")
    parser.add_argument("--soak", type=int, default=100, help="experiences of one long run")
    parser.add_argument("--methods", nargs="+", default=["rebll", "er"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="reliability-"))
    if arguments.faults:
        with_failing_disk(root)
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")
    sys.path.insert(0, str(HERE))
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    import campaigns

    draw = random.Random(arguments.seed)
    found: list[dict[str, Any]] = []
    try:
        for method in arguments.methods:
            subject = campaigns.Subject(method, root)
            share = len(arguments.methods)
            plans = [
                ("kills at random times", arguments.kills, subject.kill_at_times),
                ("kills at file calls", arguments.calls, subject.kill_at_calls),
                *(
                    (f"disk: {fault}", arguments.faults // 4, subject.failing(fault))
                    for fault in campaigns.FAULTS
                    if arguments.faults
                ),
                ("bits of a finished run", 2 * arguments.flips // 3, subject.flip_finished),
                ("bits of a stopped run", arguments.flips // 3, subject.flip_stopped),
                ("two writers", arguments.writers, subject.two_writers),
            ]
            for name, number, trials in plans:
                if number // share:
                    found.append(tally(name, method, trials(number // share, draw)))
        if arguments.cache_flips:
            flips = campaigns.flip_caches(arguments.cache_flips, draw, root)
            found.append(tally("bits of caches", "", flips))
        if arguments.soak:
            found.append(campaigns.soak(arguments.soak, arguments.methods[0], root))
            write(found[-1])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if any(row.get(end) for row in found for end in BAD) else 0


def tally(name: str, method: str, trials: Iterator[str]) -> dict[str, Any]:
    """Count how trials end, and say so."""
    began = time.perf_counter()
    counts = Counter(trials)
    row = {"campaign": name, "method": method, "tried": counts.total()}
    row |= {end: counts[end] for end in ENDS}
    row["seconds"] = round(time.perf_counter() - began)
    write(row)
    return row


def write(row: dict[str, Any]) -> None:
    """Show a row and add it to the table."""
    print(row, flush=True)
    fields = ["campaign", "method", "tried", *ENDS, "seconds", "note"]
    fresh = not COUNTS.exists()
    with COUNTS.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, fields, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    sys.exit(main())
