"""One seed for everything random."""

from __future__ import annotations

import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python's, numpy's and torch's random numbers and ask torch for repeatable kernels.

    Class order is not random in this sense: it belongs to the benchmark and has its own argument.

    Args:
        seed: The same seed gives the same bits on the same machine.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - augmentations of other libraries draw from it
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
