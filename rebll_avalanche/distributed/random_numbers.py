"""Random numbers that depend on the sample, not on the process that reads it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def state() -> tuple[Any, ...]:
    """State of the CPU generators of torch, NumPy and Python."""
    return torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002


def set_state(saved: tuple[Any, ...]) -> None:
    """Restore a :func:`state`."""
    torch.set_rng_state(saved[0])
    np.random.set_state(saved[1])  # noqa: NPY002
    random.setstate(saved[2])


def state_hash() -> str:
    """A hash of the state."""
    of_torch, of_numpy, of_python = state()
    text = f"{of_numpy[1].tobytes()!r}{of_numpy[2:]}{of_python}"
    return hashlib.blake2b(of_torch.numpy().tobytes() + text.encode(), digest_size=8).hexdigest()


def glimpse() -> int:
    """The next number of the generator, without advancing it."""
    copy = torch.Generator()
    copy.set_state(torch.get_rng_state())
    return int(torch.randint(2**62, (), generator=copy))


@contextmanager
def own_numbers(seed: int, *key: int) -> Iterator[None]:
    """Seed the generators by a key inside the block, and restore them afterwards."""
    saved = state()
    text = ",".join(map(str, (seed, *key))).encode()
    number = int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little")
    torch.default_generator.manual_seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002 - what transforms draw from
    random.seed(number)
    try:
        yield
    finally:
        set_state(saved)
