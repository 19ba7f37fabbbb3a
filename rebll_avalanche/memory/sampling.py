"""Sampling policies: which images of a stream stay in memory.

A policy is called once per experience and returns the rows to keep among the stored and the arriving
images. It gets labels only, never images; with ``wants_features`` it also gets features.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from rebll_avalanche.labels import grown
from rebll_avalanche.memory.herding import Herding, described
from rebll_avalanche.stateful import Stateful
from rebll_avalanche.words import brief


class SamplingPolicy(Protocol):
    """Decides what a memory of limited size keeps."""

    def select(self, kept: Tensor, arriving: Tensor, capacity: int) -> Tensor:
        """Choose rows.

        Args:
            kept: ``[m, classes]`` labels (NaN unknown) of the images in memory.
            arriving: ``[n, classes]`` labels of an experience's images, in order of arrival.
            capacity: Maximum number of rows to choose.

        Returns:
            Sorted indices into ``kept`` followed by ``arriving``.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """The policy's state over the stream."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        ...


class Reservoir(Stateful):
    """Reservoir sampling: every image of the stream is equally likely to be in memory.

    Each image gets a random key when it arrives and the largest keys stay, which gives the same
    distribution as replacing images one by one and needs no loop.
    """

    stored = ("keys",)

    def __init__(self) -> None:
        self.keys = torch.empty(0, dtype=torch.float64)

    def select(self, kept: Tensor, arriving: Tensor, capacity: int) -> Tensor:
        """Keep the ``capacity`` largest keys."""
        if len(kept) != len(self.keys):
            raise ValueError(
                f"memory has {len(kept)} rows, but {len(self.keys)} were kept last time"
            )
        keys = torch.cat([self.keys, torch.rand(len(arriving), dtype=torch.float64)])
        chosen = keys.topk(min(capacity, len(keys))).indices.sort().values
        self.keys = keys[chosen]
        return chosen


class PartitioningReservoir(Stateful):
    r"""PRS: a reservoir partitioned by class, for streams where some classes are rare.

    With ``n_i`` images of class i in the stream so far, ``M_i`` in a memory of ``m`` images, and target
    shares :math:`p_i = n_i^q / \sum_j n_j^q`, an image with labels Y is added to a full memory thus:

    * it is accepted with probability :math:`\sum_{i \in Y} w_i \min(1, m p_i / n_i)`, where ``w`` is the
      softmax of :math:`-n_i` over its labels, dominated by the rarest one;
    * :math:`\delta_i = M_i - p_i \sum_j M_j` is the excess of each class over its share; a class is
      drawn from the softmax of these among the classes in memory;
    * candidates are that class's images that lack most of the classes with :math:`\delta \le 0`; the
      one whose removal leaves the smallest :math:`\sum_i |\delta_i|` is removed.

    Args:
        q: Power of the shares: 0 gives equal shares, 1 the stream's own frequencies; the default is
            the authors' for MS-COCO.
    """

    stored = ("counts",)

    def __init__(self, q: float = -0.03) -> None:
        self.q = q
        self.counts = torch.zeros(0)

    def select(self, kept: Tensor, arriving: Tensor, capacity: int) -> Tensor:
        """Process the images one by one."""
        positive = torch.cat([kept, arriving]).eq(1).float()
        slots = list(range(len(kept)))
        self.counts = grown(self.counts, positive.shape[1])
        for row in range(len(kept), len(positive) if capacity else 0):
            labels = positive[row]
            if len(slots) < capacity:
                slots.append(row)
            elif torch.rand(()) < self.chance(labels, capacity):
                slots[self.leaving(positive[slots])] = row
            self.counts += labels
        return torch.tensor(sorted(slots), dtype=torch.long)

    def shares(self) -> Tensor:
        """Target share ``p_i`` of every class; 0 for classes not seen yet."""
        weight = torch.where(self.counts > 0, self.counts.clamp(min=1) ** self.q, 0.0)
        return weight / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)

    def chance(self, labels: Tensor, capacity: int) -> Tensor:
        """Probability that an image with these labels is accepted."""
        mine = labels > 0
        count = self.counts[mine]
        # A class not seen yet is always accepted.
        fraction = (capacity * self.shares()[mine] / count.clamp(min=1)).clamp(max=1)
        fraction = torch.where(count > 0, fraction, 1.0)
        return (torch.softmax(-count, dim=0) * fraction).sum()

    def leaving(self, memory: Tensor) -> int:
        """The row of a full memory to remove."""
        in_memory, shares = memory.sum(dim=0), self.shares()
        if not in_memory.any():  # no image has a label; any may be removed
            return int(torch.randint(len(memory), ()))
        excess = in_memory - shares * in_memory.sum()
        odds = torch.softmax(excess.masked_fill(in_memory == 0, -torch.inf), dim=0)
        rows = memory[:, int(torch.multinomial(odds, 1))].nonzero().flatten()
        lacking = ((1 - memory[rows]) * (excess <= 0)).sum(dim=1)
        rows = rows[lacking == lacking.max()]
        without = in_memory - memory[rows]
        distance = (without - shares * without.sum(dim=1, keepdim=True)).abs().sum(dim=1)
        return int(rows[distance.argmin()])


class OptimisedDistribution(Stateful):
    r"""OCDM: keeps the class distribution of memory close to a target, image by image.

    With target shares :math:`p_i = n_i^\rho / \sum_j n_j^\rho` of the stream's class counts, a batch is
    added to memory; then, until ``capacity`` images are left, the image is removed that leaves the class
    distribution ``h`` of the rest with the smallest :math:`KL(p \| h)`; ties are broken at random.

    The direction of the divergence is our interpretation. This one penalises the loss of a class; in the
    other, :math:`KL(h \| p)`, a class missing from memory does not appear.

    Args:
        rho: Power of the shares: 0 gives equal shares.
        batch_size: Number of images added at a time.
    """

    stored = ("counts",)

    def __init__(self, rho: float = 0.0, batch_size: int = 64) -> None:
        self.rho = rho
        self.batch_size = batch_size
        self.counts = torch.zeros(0)

    def select(self, kept: Tensor, arriving: Tensor, capacity: int) -> Tensor:
        """Add batches and remove the surplus."""
        positive = torch.cat([kept, arriving]).eq(1).double()
        self.counts = grown(self.counts, positive.shape[1])
        rows = torch.arange(len(kept))
        for batch in torch.arange(len(kept), len(positive)).split(self.batch_size):
            self.counts += positive[batch].sum(dim=0).float()
            rows = torch.cat([rows, batch])
            while len(rows) > capacity:
                distance = self.divergence(positive[rows])
                closest = (distance <= distance.min() + 1e-9).nonzero().flatten()
                leaving = closest[torch.randint(len(closest), ())]
                rows = torch.cat([rows[:leaving], rows[leaving + 1 :]])
        return rows

    def shares(self) -> Tensor:
        """Target share of every class; 0 for classes not seen yet."""
        weight = torch.where(self.counts > 0, self.counts.clamp(min=1) ** self.rho, 0.0).double()
        return weight / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)

    def divergence(self, memory: Tensor) -> Tensor:
        """For each row, the divergence of the others' class distribution from the target."""
        # Losing a class has a large but finite penalty, so that several such choices can still be
        # compared.
        rest = (memory.sum(dim=0) - memory).clamp(min=1e-9)
        distribution = rest / rest.sum(dim=1, keepdim=True)
        shares = self.shares()
        entropy: Tensor = torch.special.xlogy(shares, shares).sum()
        return entropy - distribution.log() @ shares


PolicyName = Literal["reservoir", "prs", "ocdm", "herding"]
POLICIES: dict[str, type[Any]] = {
    "reservoir": Reservoir,
    "prs": PartitioningReservoir,
    "ocdm": OptimisedDistribution,
    "herding": Herding,
}


def build_policy(policy: str | SamplingPolicy) -> SamplingPolicy:
    """A policy by name, or the given one."""
    if not isinstance(policy, str):
        if not callable(getattr(policy, "select", None)):
            raise TypeError(f"a policy is a name or has a method select, got {brief(policy)}")
        return policy
    if policy not in POLICIES:
        raise ValueError(
            f"no sampling policy is called {brief(policy)}; available: {', '.join(POLICIES)}"
        )
    built: SamplingPolicy = POLICIES[policy]()
    return built


def chosen_rows(
    policy: Any,
    kept: Tensor,
    arriving: Tensor,
    capacity: int,
    seen: Any,
    index: Tensor | slice = slice(None),
) -> Tensor:
    """The rows that a policy keeps; it gets the features of arriving images if it needs them.

    Args:
        policy: See :class:`SamplingPolicy`.
        kept: Labels of the images in memory.
        arriving: Labels of the experience's images.
        capacity: Maximum number of images to keep.
        seen: A strategy that has just learned the experience.
        index: Which of the experience's images arrive, if not all.
    """
    select = policy.select
    if getattr(policy, "wants_features", False):
        select = partial(select, features=described(seen)[index])
    rows: Tensor = select(kept, arriving, capacity)
    return rows
