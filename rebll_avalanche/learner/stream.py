"""Lessons as Avalanche experiences: the new pictures, and earlier ones from memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from avalanche.benchmarks.scenarios.generic_scenario import CLScenario, EagerCLStream
from torch import Tensor

from rebll_avalanche.benchmarks.experience import MultiLabelExperience, labelled_dataset
from rebll_avalanche.benchmarks.images import Source
from rebll_avalanche.benchmarks.kept import KeptPictures
from rebll_avalanche.benchmarks.transforms import evaluation_transform, training_transform
from rebll_avalanche.labels import UNKNOWN, annotated
from rebll_avalanche.scenario import Scenario


class LessonStream(CLScenario):
    """All lessons so far as a stream; only the last one is complete.

    Earlier experiences hold only the images that memory refers to.

    Args:
        sizes: Number of new classes of each lesson, including this one.
        kept: Inputs by lesson, in the order of the memory's references.
        kept_labels: Their labels in that lesson; unknown if not kept.
        inputs: Inputs of this lesson: vectors, or pictures.
        labels: ``[pictures, classes]`` of 1, 0 and NaN.
        keys: A unique number per picture.
        side: Side of the squares that pictures are scaled to.
    """

    train_stream: Any

    def __init__(
        self,
        sizes: Sequence[int],
        kept: Mapping[int, Source],
        kept_labels: Mapping[int, Tensor],
        inputs: Source,
        labels: Tensor,
        keys: Sequence[int],
        side: int,
    ) -> None:
        self.num_classes = labels.shape[1]
        self.class_names = [str(column) for column in range(self.num_classes)]
        self.scenario = Scenario(tuple(sizes), tuple(range(self.num_classes)), "lessons")
        self._side = side
        experiences = []
        for number in range(len(sizes) - 1):
            source = kept.get(number, inputs)
            said = torch.full((len(kept.get(number, ())), self.num_classes), UNKNOWN)
            if number in kept_labels:
                said[:, : kept_labels[number].shape[1]] = kept_labels[number]
            experiences.append(self._experience(number, source, said))
        last = self._experience(len(sizes) - 1, inputs, labels)
        last.image_keys = list(keys)
        super().__init__([EagerCLStream("train", [*experiences, last], benchmark=self)])

    def _experience(self, number: int, source: Source, labels: Tensor) -> MultiLabelExperience:
        rows = torch.arange(len(labels))
        transforms = {}
        if source.pictures:
            source = KeptPictures(source, self._side)
            source.keep(number, rows.tolist())  # every epoch reads them
            transforms = {
                "train": training_transform(self._side),
                "eval": evaluation_transform(self._side),
            }
        named = annotated(labels).any(dim=0).nonzero().flatten().tolist()
        return MultiLabelExperience(
            dataset=labelled_dataset(source, rows, labels, transforms),
            current_experience=number,
            scenario=self.scenario,
            annotated_classes=named,
            image_indices=rows,
            labels=labels,
            source=source,
        )
