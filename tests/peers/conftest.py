"""Numbers that other people's public releases computed; they lie beside the repository, not in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

PEERS = Path(os.environ.get("REBLL_TEST_PEERS", Path(__file__).parents[3] / "shared" / "peers"))

Arrays = dict[str, Tensor]


@pytest.fixture
def peer() -> Callable[[str], Arrays]:
    """A function that reads one file of numbers."""

    def read(name: str) -> Arrays:
        path = PEERS / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"no {path}; set REBLL_TEST_PEERS to a folder that has it")
        with np.load(path, allow_pickle=False) as arrays:
            return {key: torch.from_numpy(np.asarray(arrays[key])) for key in arrays.files}

    return read


@pytest.fixture
def near() -> Callable[..., None]:
    """``near(ours, theirs, difference)``: no entry differs by more; both have the same shape."""

    def check(ours: Tensor | float, theirs: Tensor, difference: float) -> None:
        ours = torch.as_tensor(ours).detach().double()
        torch.testing.assert_close(ours, theirs.double(), rtol=0, atol=difference)

    return check
