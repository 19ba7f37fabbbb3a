"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def means_learner(given: Path) -> bool:
    """Whether a learner's file is meant, and not the folder of a run; it may be missing."""
    return given.is_file() or (given.suffix == ".rebll" and not given.is_dir())


def add_cluster_options(parser: Any, *, threads: str, gpus: bool = True) -> None:
    """Add the options of commands that can run on a Ray cluster; ``gpus``: whether they can use any."""
    parser.add_argument("--threads", type=int, help=threads)
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="run on a Ray cluster; without an address, on a local one",
    )
    if gpus:
        parser.add_argument(
            "--gpus", type=float, help="GPUs of each task on Ray (default: 1 if there are any)"
        )


def check_counts(arguments: Any, *names: str) -> None:
    """Refuse counts below one."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}")
