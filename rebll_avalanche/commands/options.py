"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def means_learner(given: Path) -> bool:
    """Whether a learner's file is meant, and not the folder of a run; it may be missing."""
    return given.is_file() or (given.suffix == ".rebll" and not given.is_dir())


def add_cluster_options(parser: Any, *, threads: str) -> None:
    """Where work runs on a cluster, and on how much of it.

    Args:
        parser: Of ``argparse``.
        threads: Help for ``--threads``.
    """
    parser.add_argument("--threads", type=int, help=threads)
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="run on a Ray cluster; without an address, on one of this machine",
    )
    parser.add_argument(
        "--gpus", type=float, help="of each task on Ray; by default 1 where there are any"
    )


def check_counts(arguments: Any, *names: str) -> None:
    """Refuse numbers of things below one.

    Raises:
        ValueError: Naming the option.
    """
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}")
