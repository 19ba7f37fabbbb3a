"""Lessons as Avalanche experiences: the new pictures, and what memory kept of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from avalanche.benchmarks.scenarios.generic_scenario import CLScenario, EagerCLStream
from torch import Tensor

from rebll_avalanche.benchmarks.dataset import MultiLabelDataset, Samples
from rebll_avalanche.benchmarks.generator import MultiLabelExperience
from rebll_avalanche.benchmarks.images import Rows
from rebll_avalanche.benchmarks.targets import MultiLabelTargets
from rebll_avalanche.labels import UNKNOWN, annotated
from rebll_avalanche.memory import Memory
from rebll_avalanche.scenario import Scenario


class LessonStream(CLScenario):
    """All lessons so far as one stream of vectors, of which only the last one is complete.

    Earlier experiences hold the vectors that a memory still refers to, and nothing else.

    Args:
        sizes: New classes of each lesson, this one last.
        archive: Vectors by lesson, in the order that the memory's references count them.
        vectors: ``[pictures, features]`` of this lesson.
        labels: ``[pictures, classes]`` of 1, 0 and NaN.
        keys: A number for each picture that tells it from all others.
    """

    train_stream: Any

    def __init__(
        self,
        sizes: Sequence[int],
        archive: Mapping[int, Tensor],
        vectors: Tensor,
        labels: Tensor,
        keys: Sequence[int],
    ) -> None:
        self.num_classes = labels.shape[1]
        self.class_names = [str(column) for column in range(self.num_classes)]
        self.scenario = Scenario(tuple(sizes), tuple(range(self.num_classes)), "lessons")
        empty = vectors[:0]
        experiences = []
        for number in range(len(sizes) - 1):
            kept = archive.get(number, empty)
            unknown = torch.full((len(kept), self.num_classes), UNKNOWN)
            experiences.append(self._experience(number, kept, unknown))
        last = self._experience(len(sizes) - 1, vectors, labels)
        last.image_keys = list(keys)
        super().__init__([EagerCLStream("train", [*experiences, last], benchmark=self)])

    def _experience(self, number: int, vectors: Tensor, labels: Tensor) -> MultiLabelExperience:
        source, rows = Rows(vectors), torch.arange(len(vectors))
        dataset = MultiLabelDataset(
            [Samples(source, rows, labels)], data_attributes=[MultiLabelTargets(labels)]
        )
        named = annotated(labels).any(dim=0).nonzero().flatten().tolist()
        return MultiLabelExperience(
            dataset=dataset,
            current_experience=number,
            scenario=self.scenario,
            annotated_classes=named,
            image_indices=rows,
            labels=labels,
            source=source,
        )


def archive_of(memory: Memory | None) -> dict[int, Tensor]:
    """The vectors that a memory refers to, by lesson; its references are counted anew within these."""
    if memory is None:
        return {}
    archive = {}
    for number in sorted(set(memory.experience.tolist())):
        rows, _ = memory.rows_of(number)
        archive[number] = memory.images(rows, augment=False)
        memory.index[rows] = torch.arange(len(rows))
    return archive
