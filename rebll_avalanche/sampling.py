"""Which images of a stream stay in memory.

A policy is asked once per experience and answers with rows: of what is in memory and what has just
arrived, which to keep. It sees labels only, never images.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class SamplingPolicy(Protocol):
    """Decides what a memory of limited size keeps."""

    def select(self, kept: Tensor, arriving: Tensor, capacity: int) -> Tensor:
        """Choose rows.

        Args:
            kept: ``[m, classes]`` labels (NaN unknown) of what is in memory.
            arriving: ``[n, classes]`` labels of an experience's images, in order of arrival.
            capacity: How many rows may be chosen.

        Returns:
            Sorted indices into ``kept`` followed by ``arriving``.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """What the policy remembers of the stream."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        ...


class Reservoir:
    """Reservoir sampling: every image of the stream is equally likely to be in memory.

    Each image draws a random key when it arrives and the largest keys stay, which gives the same
    distribution as replacing one by one and needs no loop.
    """

    def __init__(self) -> None:
        self.keys = torch.empty(0, dtype=torch.float64)

    def select(self, kept: Tensor, arriving: Tensor, capacity: int) -> Tensor:
        """Keep the ``capacity`` largest keys."""
        if len(kept) != len(self.keys):
            raise ValueError(
                f"{len(kept)} rows in memory, but {len(self.keys)} were kept last time"
            )
        keys = torch.cat([self.keys, torch.rand(len(arriving), dtype=torch.float64)])
        chosen = keys.topk(min(capacity, len(keys))).indices.sort().values
        self.keys = keys[chosen]
        return chosen

    def state_dict(self) -> dict[str, Any]:
        """The keys of what is in memory."""
        return {"keys": self.keys}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self.keys = state["keys"].clone()


POLICIES: dict[str, type[Any]] = {"reservoir": Reservoir}


def build_policy(policy: str | SamplingPolicy) -> SamplingPolicy:
    """A policy by name, or the given one."""
    if not isinstance(policy, str):
        return policy
    if policy not in POLICIES:
        raise ValueError(
            f"no sampling policy is called {policy!r}; there are {', '.join(POLICIES)}"
        )
    built: SamplingPolicy = POLICIES[policy]()
    return built
