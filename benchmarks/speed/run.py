"""Every speed measurement in one table of ratios: `make speed`, or

    python benchmarks/speed/run.py

Each row compares this package with the least that would do the same, in the same process, turn by turn,
with one thread, by CPU time. Numbers of another machine differ, ratios hardly do.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import warnings

os.environ["OMP_NUM_THREADS"] = "1"
warnings.simplefilter("ignore")

import torch  # noqa: E402
from comparison import Row, table  # noqa: E402
from comparison import goals as goals_table  # noqa: E402

from rebll_avalanche import keep_freed_memory  # noqa: E402


def main() -> None:
    """Measure everything, or the parts named on the command line."""
    import closed_form
    import counts
    import goals
    import peak
    import pictures
    import scores
    import start
    import training

    parts = {
        "goals": goals.rows,
        "training": training.rows,
        "closed_form": closed_form.rows,
        "counts": counts.rows,
        "start": start.rows,
        "pictures": pictures.rows,
        "peak": peak.rows,
        "scores": scores.rows,
    }
    if unknown := [name for name in sys.argv[1:] if name not in parts]:
        sys.exit(f"no part is called {unknown[0]!r}; there are {', '.join(parts)}")
    torch.set_num_threads(1)
    # As in every run of `rebll`. Otherwise a contestant's time is mostly that of fetching pages, and more
    # a matter of when the other one freed them than of its own work.
    keep_freed_memory()
    rows: list[Row] = []
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # nobody's own caches help or suffer
        for name in sys.argv[1:] or parts:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            found = parts[name]()
            print(
                *(" | ".join(row.cells()) for row in found), sep="\n", file=sys.stderr, flush=True
            )
            if name == "goals":
                print(goals_table(found), end="\n\n", flush=True)
            rows += found
    print(table(rows))
    took = (time.perf_counter() - started) / 60
    print(f"\ntorch {torch.__version__}, {platform.machine()}, one thread, {took:.0f} minutes")


if __name__ == "__main__":
    main()
