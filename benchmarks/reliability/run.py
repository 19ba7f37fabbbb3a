"""Try to break runs, learners and caches, and count what happens.

    python benchmarks/reliability/run.py [--kills 1000] [--commands 20] [--faults 400] [--damage 1000]
        [--cache-damage 200] [--writers 40] [--soak 300] [--subjects rebll ...] [--seed 0]
        [--counts counts.csv]

Every campaign is a row of ``counts.csv``, which is written anew. A trial ends in one of

- same: the work went on, or the data were read or built again, to the very same bits;
- refused: an error in one line says what is wrong; nothing wrong was shown;
- lost: the folder is of no use any more although nothing but the process or one write has failed;
- traceback: an error that nobody has foreseen;
- silent: other results than those of undisturbed work, without a word.

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
ENDS = ("same", "refused", "lost", "traceback", "silent")
BAD = ("lost", "traceback", "silent")
FIELDS = ("campaign", "subject", "tried", *ENDS, "seconds", "note")
# Flushing costs nothing in memory, and a process that is killed loses no writes there either. What a
# disk would lose is simulated by faults.c.
MEMORY = Path("/dev/shm")


def with_failing_disk() -> None:
    """Start this program again behind the shim, which is compiled now."""
    if "RELIABILITY_SHIM" in os.environ:
        return
    shim = Path(tempfile.mkdtemp(prefix="reliability-")) / "faults.so"
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
    parser.add_argument("--kills", type=int, default=1000, help="SIGKILLs, half at file calls")
    parser.add_argument("--commands", type=int, default=20, help="SIGKILLs of the command line")
    parser.add_argument("--faults", type=int, default=400, help="failing writes, of four kinds")
    parser.add_argument(
        "--damage", type=int, default=1000, help="damaged files, a third unfinished"
    )
    parser.add_argument("--cache-damage", type=int, default=200, help="damaged files of caches")
    parser.add_argument("--writers", type=int, default=40, help="pairs of processes in one folder")
    parser.add_argument("--soak", type=int, default=300, help="experiences of one long run")
    parser.add_argument("--subjects", nargs="+", help="only these, as the table names them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--counts", type=Path, default=HERE / "counts.csv", help="where to count")
    arguments = parser.parse_args()
    if arguments.faults:
        with_failing_disk()
    root = Path(tempfile.mkdtemp(prefix="reliability-", dir=MEMORY if MEMORY.is_dir() else None))
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")
    sys.path.insert(0, str(HERE))
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    try:
        for row in campaigns(arguments, root):
            found.append(row)
            print(row, flush=True)
            write(found, arguments.counts)
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if shim := os.environ.get("RELIABILITY_SHIM"):
            shutil.rmtree(Path(shim).parent, ignore_errors=True)
    return 1 if any(row.get(end) for row in found for end in BAD) else 0


def campaigns(arguments: argparse.Namespace, root: Path) -> Iterator[dict[str, Any]]:
    """One row after the other."""
    from campaigns import Campaigns, flip_caches, kill_commands, soak
    from processes import FAULTS
    from subjects import File, Run, Served

    draw = random.Random(arguments.seed)
    # What trains has the most states to be stopped in.
    shares = {
        Run("rebll"): 0.3,
        Run("er"): 0.1,
        Run("closed-form"): 0.2,
        File(root, "closed-form"): 0.2,
        File(root, "rebll"): 0.1,
        Served(root, "closed-form"): 0.1,
    }
    for subject, share in shares.items():
        if arguments.subjects and subject.name not in arguments.subjects:
            continue
        tried = Campaigns(subject, root)
        plans = [
            ("kills at random times", arguments.kills / 2, tried.kill_at_times),
            ("kills at file calls", arguments.kills / 2, tried.kill_at_calls),
            *((f"disk: {kind}", arguments.faults / 4, tried.failing(kind)) for kind in FAULTS),
            ("damaged, finished", 2 * arguments.damage / 3, tried.damage_finished),
            ("damaged, stopped", arguments.damage / 3, tried.damage_stopped),
            ("two writers", arguments.writers, tried.two_writers),
        ]
        for name, number, trials in plans:
            if mine := round(number * share):
                yield tally(name, subject.name, trials(mine, draw))
    if arguments.commands:
        trials = kill_commands(arguments.commands, draw, root)
        yield tally("kills of the command", "rebll run", trials)
    if arguments.cache_damage:
        trials = flip_caches(arguments.cache_damage, draw, root)
        yield tally("damaged caches", "", trials)
    if arguments.soak:
        yield soak(arguments.soak, "rebll", root)


def tally(name: str, subject: str, trials: Iterator[str]) -> dict[str, Any]:
    """Count how trials end."""
    began = time.perf_counter()
    counts = Counter(trials)
    row = {"campaign": name, "subject": subject, "tried": counts.total()}
    row |= {end: counts[end] for end in ENDS}
    return row | {"seconds": round(time.perf_counter() - began)}


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """The table so far."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
