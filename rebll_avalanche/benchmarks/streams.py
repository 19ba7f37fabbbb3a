"""Assign images and annotated classes to experiences.

Every kind of stream is a list of parts ``(rows, columns)``, one per experience: ordered rows of the label
matrix, and the columns annotated for them. Streams depend only on labels and a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from rebll_avalanche.scenario import Scenario

Part = tuple[Tensor, list[int]]
# Rows (indices of training images) and the classes they are annotated for, by name or by index.
Annotations = Sequence[tuple[Sequence[int], Sequence[int] | Sequence[str]]]


def overlap(positives: Tensor, scenario: Scenario) -> list[Part]:
    """Use an image in every experience that introduces one of its classes.

    Args:
        positives: Boolean ``[images, classes]``, columns in order of learning.
        scenario: The classes of each experience.
    """
    return _parts(_bringing(positives, scenario), scenario)


def disjoint(positives: Tensor, scenario: Scenario) -> list[Part]:
    """Use an image once, in the last experience that introduces one of its classes."""
    uses = _bringing(positives, scenario)
    later = uses.flip(0).cummax(dim=0).values.flip(0)
    uses[:-1] &= ~later[1:]
    return _parts(uses, scenario)


def once(positives: Tensor, scenario: Scenario, seed: int) -> list[Part]:
    """Use an image once, in a random experience that introduces one of its classes."""
    uses = _bringing(positives, scenario)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(uses.T.shape, generator=generator).T.masked_fill(~uses, -1.0).argmax(dim=0)
    return _parts(uses & (torch.arange(len(uses))[:, None] == drawn), scenario)


def seen(positives: Tensor, scenario: Scenario) -> list[Part]:
    """For evaluation: all images of the classes seen so far, annotated for all of these."""
    uses = _bringing(positives, scenario).cummax(dim=0).values
    rows = [row.nonzero().flatten() for row in uses]
    return [(r, list(range(hi))) for r, (_, hi) in zip(rows, scenario.ranges, strict=True)]


def repetition(
    positives: Tensor, scenario: Scenario, *, chance: float, images: int | None, seed: int
) -> list[Part]:
    """Let classes reappear, with images not used before.

    Each experience is annotated for its new classes and for randomly drawn earlier ones, at least one
    class in total. Class by class, rarest first, images are shuffled and distributed over the experiences
    of their class.

    Args:
        positives: Boolean ``[images, classes]``, columns in order of learning.
        scenario: The classes of each experience; experiences may have no new class.
        chance: Probability that an earlier class reappears in an experience.
        images: Maximum images of a class per experience, exceeded only by images that a rarer class
            needs; by default all are used.
        seed: Random seed.
    """
    generator = torch.Generator().manual_seed(seed)
    coming = []
    for lo, hi in scenario.ranges:
        columns = (torch.rand(lo, generator=generator) < chance).nonzero().flatten().tolist()
        columns += range(lo, hi)
        coming.append(columns or [int(torch.randint(lo, (), generator=generator))])
    rarest_first = positives.sum(dim=0).argsort(stable=True).tolist()
    home = torch.full((len(positives),), -1)
    for column in rarest_first:
        steps = torch.tensor([step for step, columns in enumerate(coming) if column in columns])
        free = ((home < 0) & positives[:, column]).nonzero().flatten()
        free = free[torch.randperm(len(free), generator=generator)]
        home[free] = steps[torch.arange(len(free)) % len(steps)]
    parts = []
    for step, columns in enumerate(coming):
        rows = (home == step).nonzero().flatten()
        if images is not None:
            order = [column for column in rarest_first if column in columns]
            rows = _at_most(rows, positives, order, images)
        shown = positives[rows].any(dim=0)
        parts.append((rows, [column for column in columns if shown[column]]))
    return parts


def _at_most(rows: Tensor, positives: Tensor, order: list[int], images: int) -> Tensor:
    """Take rows until each class, in this order, has its number of images."""
    chosen = torch.zeros(len(rows), dtype=torch.bool)
    for column in order:
        mine = positives[rows, column]
        missing = images - int((chosen & mine).sum())
        chosen[(mine & ~chosen).nonzero().flatten()[: max(missing, 0)]] = True
    return rows[chosen]


def is_annotations(scenario: Any) -> TypeGuard[Annotations]:
    """Whether a scenario is a list of pairs ``(rows, annotated classes)``."""

    def listed(entry: Any) -> bool:
        return hasattr(entry, "__len__") and not isinstance(entry, str)

    return (
        isinstance(scenario, Sequence)
        and not isinstance(scenario, str | bytes)
        and len(scenario) > 0
        and all(listed(pair) and len(pair) == 2 and all(map(listed, pair)) for pair in scenario)
    )


def explicit(
    annotations: Annotations, usable: Tensor, column_of: Callable[[Any], int]
) -> list[Part]:
    """Convert explicitly listed parts, without unusable images.

    Args:
        annotations: Rows and annotated classes of each experience.
        usable: Boolean ``[images]``.
        column_of: Maps a listed class to its column.

    Raises:
        ValueError: When an experience lists a row twice, or an image that does not exist.
    """
    parts = []
    for step, (listed, classes) in enumerate(annotations):
        rows = torch.as_tensor(listed, dtype=torch.long)
        wrong = rows[(rows < 0) | (rows >= len(usable))].tolist()
        if wrong:
            raise ValueError(
                f"experience {step} lists image {wrong[0]}, but there are only {len(usable)} "
                "training images, counted from 0"
            )
        if len(rows.unique()) != len(rows):
            raise ValueError(f"experience {step} lists an image twice")
        parts.append((rows[usable[rows]], sorted(column_of(entry) for entry in classes)))
    return parts


def _bringing(positives: Tensor, scenario: Scenario) -> Tensor:
    """Boolean ``[experiences, images]``: whether an experience introduces a class of an image."""
    return torch.stack([positives[:, lo:hi].any(dim=1) for lo, hi in scenario.ranges])


def _parts(uses: Tensor, scenario: Scenario) -> list[Part]:
    """Parts annotated for exactly the new classes."""
    return [
        (used.nonzero().flatten(), list(range(lo, hi)))
        for used, (lo, hi) in zip(uses, scenario.ranges, strict=True)
    ]
