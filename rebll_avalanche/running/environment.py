"""What a run depends on besides its configuration: versions, hardware, code, random numbers."""

from __future__ import annotations

import os
import platform
import random
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rebll_avalanche.arguments import check_number

PACKAGES = (
    "rebll-avalanche",
    "avalanche-lib",
    "torch",
    "torchvision",
    "timm",
    "numpy",
    "scikit-learn",
    "pillow",
    "safetensors",
)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on; empty if not installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = ""
    return found


def git_state() -> dict[str, Any]:
    """Commit of this package's source and whether it has local changes; empty outside a checkout."""
    here = Path(__file__).parent

    def ask(*arguments: str) -> str:
        # Only look: otherwise `git status` writes the index, and stopped half-way leaves its lock.
        command = ["git", "--no-optional-locks", *arguments]
        answer = subprocess.run(
            command, cwd=here, capture_output=True, text=True, timeout=10, check=True
        )
        return answer.stdout.strip()

    try:
        if not ask("ls-files", "--", Path(__file__).name):  # installed in another checkout
            return {}
        return {
            "commit": ask("rev-parse", "HEAD"),
            "changed": bool(ask("status", "--porcelain", "--", ":/rebll_avalanche")),
        }
    except (OSError, subprocess.SubprocessError):
        return {}


def hardware() -> dict[str, Any]:
    """Properties of the machine that affect results and times."""
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def seed_everything(seed: int) -> None:
    """Seed Python's, numpy's and torch's random number generators and select deterministic kernels.

    The class order is independent of this seed: the benchmark has its own argument for it.

    Args:
        seed: The same seed gives bit-identical results on the same machine.

    >>> import torch
    >>> seed_everything(0)
    >>> first = torch.rand(2)
    >>> seed_everything(0)
    >>> torch.equal(torch.rand(2), first)
    True
    """
    import numpy as np
    import torch

    check_number("seed", seed, 0, 2**32 - 1, whole=True)  # what NumPy takes
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - augmentations of other libraries draw from it
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
