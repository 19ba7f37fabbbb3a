"""Options that several commands share."""

from __future__ import annotations

from typing import Any


def add_cluster_options(parser: Any, *, threads: str, gpus: bool = True) -> None:
    """Where work runs on a cluster, and on how much of it.

    Args:
        parser: Of ``argparse``.
        threads: Help for ``--threads``.
        gpus: Whether the work can use any.
    """
    parser.add_argument("--threads", type=int, help=threads)
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="run on a Ray cluster; without an address, on one of this machine",
    )
    if gpus:
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
