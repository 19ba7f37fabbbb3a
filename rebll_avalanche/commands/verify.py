"""``rebll verify``: check the integrity of runs, learners and caches."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Compare every byte of runs, learners and caches with the hashes and checksums that were written with
them. Lists all damage; the exit code is 1 if there is any."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "paths", nargs="*", type=Path,
        help="runs, .rebll files, caches, or folders of these; this package's own cache if not given",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; return 1 if something is damaged."""
    from rebll_avalanche.benchmarks.contents import cache_folder
    from rebll_avalanche.verify import verify
    from rebll_avalanche.words import printable

    damaged = 0
    for path in arguments.paths or [cache_folder()]:
        for verdict in verify(path):
            damaged += bool(verdict.problems)
            state = "DAMAGED" if verdict.problems else "sound"
            print(printable(f"{verdict.path}: {verdict.kind}, {state}"))
            for line in (*verdict.problems, *verdict.notes):
                print(printable(f"  {line}"))
    return 1 if damaged else 0
