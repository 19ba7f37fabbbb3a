"""Scenarios such as ``"B5-C3"``: which classes arrive in which experience.

Columns of every label vector are in order of first appearance: an experience adds the columns
``lo:hi``, earlier classes are ``:lo``. An experience may add no new class: ``lo == hi``.
"""

from __future__ import annotations

import operator
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rebll_avalanche.arguments import check_kind, check_number
from rebll_avalanche.protocols import Experience
from rebll_avalanche.words import brief, check_class_names

ClassOrder = str | int | Sequence[int] | Sequence[str]
# The scenario in which all classes arrive at once.
JOINT = "joint"
# A label vector has a number for each; a larger number of classes is a slip.
MOST_CLASSES = 10**7
Experiences = Sequence[Sequence[int]] | Sequence[Sequence[str]]


@dataclass(frozen=True)
class Scenario:
    """Number of new classes per experience, and the order in which classes are learned.

    Attributes:
        sizes: Number of new classes of each experience; 0 if it only has earlier ones.
        class_order: For each column, in order of learning, the index of its class in the data set.
        name: Human-readable name.

    >>> Scenario.parse("B5-C3", num_classes=20).ranges[:3]
    [(0, 5), (5, 8), (8, 11)]
    """

    sizes: tuple[int, ...]
    class_order: tuple[int, ...]
    name: str = ""

    def __post_init__(self) -> None:
        check_kind("name", self.name, str, "a text")
        for name in ("sizes", "class_order"):
            check_kind(name, getattr(self, name), list | tuple, "a tuple of whole numbers")
            for number in getattr(self, name):
                check_number(name, number, 0, MOST_CLASSES, whole=True)
        if not self.sizes or min(self.sizes) < 0 or not self.sizes[0]:
            raise ValueError(
                "the first experience must add at least 1 class, and later ones at least 0, "
                f"got sizes {brief(self.sizes)}"
            )
        if sum(self.sizes) != len(self.class_order):
            raise ValueError(
                f"experiences of {self.sizes} classes hold {sum(self.sizes)} in total, "
                f"but the class order has {len(self.class_order)}"
            )
        if sorted(self.class_order) != list(range(len(self.class_order))):
            raise ValueError(
                f"class_order must hold each of 0..{len(self.class_order) - 1} once, "
                f"got {self.class_order}"
            )

    @classmethod
    def parse(
        cls,
        scenario: str | Experiences | Scenario,
        num_classes: int | None = None,
        *,
        class_names: Sequence[str] | None = None,
        class_order: ClassOrder = "alphabetical",
    ) -> Scenario:
        """Read ``"B5-C3"``, ``"B0-C4"``, ``"joint"`` or an explicit list of classes per experience.

        Args:
            scenario: ``"Bx-Cy"``: x classes first, then y per experience (``"B0-Cy"``: y from the
                start); ``"joint"``: all at once; or one list of class names or indices per experience;
                or a ready scenario.
            num_classes: Number of classes of the data set; not needed with ``class_names``.
            class_names: Names in the data set's own order.
            class_order: ``"alphabetical"`` by name (the data set's own order if there are no names),
                the classes listed in order of learning, or an integer seed for a random order.

        >>> Scenario.parse("B5-C3", num_classes=20).sizes
        (5, 3, 3, 3, 3, 3)
        >>> Scenario.parse([["dog", "cat"], ["car"]], class_names=["car", "cat", "dog"]).class_order
        (2, 1, 0)
        """
        if class_names is not None:
            num_classes = _checked_names(class_names, num_classes)
        if num_classes is None:
            raise ValueError("pass num_classes=... or class_names=... to parse a scenario")
        check_number("num_classes", num_classes, 1, MOST_CLASSES, whole=True)
        if isinstance(scenario, Scenario):
            if len(scenario.class_order) != num_classes:
                raise ValueError(
                    f"the scenario is for {len(scenario.class_order)} classes, "
                    f"but the data have {num_classes}"
                )
            return scenario
        if isinstance(scenario, str):
            if scenario == JOINT:
                scenario = f"B{num_classes}-C0"
            sizes = _parse_sizes(scenario, num_classes)
            return cls(sizes, _parse_order(class_order, num_classes, class_names), scenario)
        if not isinstance(scenario, Iterable):
            raise ValueError(
                "a scenario must be a string such as 'B5-C3', or one list of classes per experience, "
                f"got {brief(scenario)}"
            )
        experiences = _entries(scenario)
        listed = [_indices(classes, num_classes, class_names) for classes in experiences]
        order = _complete(
            [index for classes in listed for index in classes], num_classes, class_names
        )
        sizes = tuple(len(classes) for classes in listed)
        return cls(sizes, order, "+".join(str(size) for size in sizes))

    @classmethod
    def of_annotations(
        cls,
        annotated: Sequence[Sequence[int] | Sequence[str]],
        num_classes: int,
        *,
        class_names: Sequence[str] | None = None,
    ) -> Scenario:
        """A scenario from the annotated classes of each experience, which may repeat classes.

        >>> Scenario.of_annotations([[2, 0], [0], [1, 2]], num_classes=3)
        Scenario(sizes=(2, 0, 1), class_order=(2, 0, 1), name='2+0+1')
        """
        check_number("num_classes", num_classes, 1, MOST_CLASSES, whole=True)
        if class_names is not None:
            _checked_names(class_names, num_classes)
        order: list[int] = []
        sizes = []
        for classes in _entries(annotated):
            listed = _indices(classes, num_classes, class_names)
            new = [index for index in dict.fromkeys(listed) if index not in order]
            sizes.append(len(new))
            order += new
        complete = _complete(order, num_classes, class_names)
        return cls(tuple(sizes), complete, "+".join(str(size) for size in sizes))

    def spread(self, experiences: int) -> Scenario:
        """The same classes, distributed as evenly as possible over more experiences.

        >>> Scenario.parse("B2-C1", num_classes=4).spread(5).sizes
        (2, 1, 0, 1, 0)
        """
        check_number("experiences", experiences, 1, MOST_CLASSES, whole=True)
        if experiences < len(self):
            raise ValueError(
                f"{self.name or self.sizes} has {len(self)} experiences, which do not fit into "
                f"{experiences}; use at least {len(self)}"
            )
        sizes = [0] * experiences
        for number, size in enumerate(self.sizes):
            sizes[number * experiences // len(self)] = size
        return Scenario(tuple(sizes), self.class_order, self.name)

    @property
    def num_classes(self) -> int:
        """Number of classes of all experiences together."""
        return len(self.class_order)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The columns ``(lo, hi)`` that each experience adds.

        >>> Scenario.parse("B4-C2", num_classes=8).ranges
        [(0, 4), (4, 6), (6, 8)]
        """
        ends = list(accumulate(self.sizes))
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def __len__(self) -> int:
        """Number of experiences."""
        return len(self.sizes)


def class_range(experience: Experience) -> tuple[int, int]:
    """The columns ``(lo, hi)`` that an experience adds; ``hi`` classes have been seen after it.

    Args:
        experience: Any experience with Avalanche's class-timeline attributes.

    Raises:
        ValueError: When the experience has none, or classes are not numbered in order of appearance.

    >>> import torch
    >>> from rebll_avalanche import multilabel_benchmark
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> stream = multilabel_benchmark((x, y), (x, y), "B2-C1").train_stream
    >>> [class_range(experience) for experience in stream]
    [(0, 2), (2, 3), (3, 4)]
    """
    previous = getattr(experience, "previous_classes", None)
    seen = getattr(experience, "classes_seen_so_far", None)
    if previous is None or seen is None:
        raise ValueError(
            f"an experience of type {type(experience).__name__} does not state its classes; "
            "build streams with multilabel_benchmark(...)"
        )
    for classes in (previous, seen):
        if set(classes) != set(range(len(classes))):
            raise ValueError(
                f"classes must be numbered from 0 in order of appearance, but an experience has seen "
                f"{sorted(classes)}; build streams with multilabel_benchmark(...), which does so"
            )
    return len(previous), len(seen)


def annotated_classes(experience: Experience) -> set[int]:
    """The columns annotated in an experience: new classes, earlier ones, or none.

    Experiences without this information are assumed to annotate exactly their new classes.
    """
    found = getattr(experience, "annotated_classes", None)
    return set(range(*class_range(experience))) if found is None else set(found)


def _checked_names(class_names: Sequence[str], num_classes: int | None) -> int:
    check_class_names(class_names)
    repeated = sorted(name for name, count in Counter(class_names).items() if count > 1)
    if repeated:
        raise ValueError(f"class names must be unique, repeated: {', '.join(repeated)}")
    if num_classes is not None and num_classes != len(class_names):
        raise ValueError(f"{len(class_names)} class names for {num_classes} classes")
    return len(class_names)


def _parse_sizes(text: str, num_classes: int) -> tuple[int, ...]:
    match = re.fullmatch(r"B(\d{1,9})-C(\d{1,9})", text.strip(), flags=re.IGNORECASE)
    if match is None:
        raise ValueError(
            f"scenario {brief(text)} is not of the form 'Bx-Cy', for example 'B5-C3' or 'B0-C4'; "
            "or pass one list of classes per experience"
        )
    base, step = int(match[1]), int(match[2])
    if base > num_classes:
        raise ValueError(f"{text} starts with {base} classes, but there are only {num_classes}")
    rest = num_classes - base
    if rest and (step == 0 or rest % step):
        raise ValueError(
            f"{text} leaves {rest} classes, not a multiple of {step}; {_fitting(rest, step)}"
        )
    return ((base,) if base else ()) + ((step,) * (rest // step) if rest else ())


def _fitting(rest: int, step: int) -> str:
    """The nearest smaller and larger step sizes that divide the remaining classes."""
    divisors = [size for size in range(1, rest + 1) if rest % size == 0]
    smaller = [size for size in divisors if size < step][-1:]
    larger = [size for size in divisors if size > step][:1]
    found = smaller + larger
    return " or ".join(f"C{size}" for size in found) + (" fit" if len(found) > 1 else " fits")


def _parse_order(
    class_order: ClassOrder, num_classes: int, class_names: Sequence[str] | None
) -> tuple[int, ...]:
    alphabetical = list(range(num_classes))
    if class_names is not None:
        alphabetical.sort(key=lambda index: class_names[index])
    if isinstance(class_order, str) and class_order == "alphabetical":
        return tuple(alphabetical)
    if isinstance(class_order, str | bool):
        raise ValueError(
            f"class_order must be 'alphabetical', a list of classes or a seed, got {brief(class_order)}"
        )
    if isinstance(class_order, int):
        random.Random(class_order).shuffle(alphabetical)
        return tuple(alphabetical)
    order = _indices(class_order, num_classes, class_names)
    return _complete(order, num_classes, class_names)


def _indices(
    classes: Sequence[int] | Sequence[str], num_classes: int, class_names: Sequence[str] | None
) -> list[int]:
    """Indices of classes given by name or by index."""
    known = {name: index for index, name in enumerate(class_names or ())}
    indices = []
    if not isinstance(classes, Iterable):
        raise ValueError(f"expected a list of classes, by name or by index, got {brief(classes)}")
    for entry in _entries(classes):
        try:
            index = known.get(entry) if isinstance(entry, str) else operator.index(entry)
        except (TypeError, ValueError):
            index = None
        if index is None or not 0 <= index < num_classes:
            names = ", ".join(class_names) if class_names else f"0..{num_classes - 1}"
            raise ValueError(f"class {brief(entry)} is not one of the data set's: {names}")
        indices.append(index)
    return indices


def _entries(classes: Iterable[Any]) -> list[Any]:
    try:
        return list(classes)
    except (TypeError, RuntimeError) as error:  # a tensor without dimensions, or without end
        raise ValueError(f"expected a list of classes, got {brief(classes)}") from error


def _complete(
    order: Sequence[int], num_classes: int, class_names: Sequence[str] | None
) -> tuple[int, ...]:
    """Check that an order has every class exactly once, and return it."""

    def named(indices: Sequence[int]) -> str:
        return ", ".join(class_names[index] if class_names else str(index) for index in indices)

    repeated = sorted(index for index, count in Counter(order).items() if count > 1)
    if repeated:
        raise ValueError(f"classes that arrive more than once: {named(repeated)}")
    left_out = sorted(set(range(num_classes)) - set(order))
    if left_out:
        raise ValueError(
            f"classes that never arrive: {named(left_out)}; add them to an experience, "
            "or remove their columns from the labels"
        )
    return tuple(order)
