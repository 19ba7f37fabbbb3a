"""Extend a learned benchmark by an experience of new images, of new or known classes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from avalanche.benchmarks.scenarios.generic_scenario import CLScenario, EagerCLStream
from avalanche.benchmarks.utils.data import AvalancheDataset
from avalanche.benchmarks.utils.utils import concat_datasets
from torch import Tensor
from torch.nn.functional import pad

from rebll_avalanche.benchmarks.generator import MultiLabelBenchmark, MultiLabelExperience
from rebll_avalanche.benchmarks.images import Inputs
from rebll_avalanche.benchmarks.own import split_table
from rebll_avalanche.benchmarks.transforms import (
    evaluation_transform,
    is_picture,
    training_transform,
)
from rebll_avalanche.labels import UNKNOWN
from rebll_avalanche.scenario import Scenario
from rebll_avalanche.tables import read_csv


def read_new_images(
    labels: str | Path,
    images: str | Path,
    *,
    test_size: float = 0.2,
    seed: int = 0,
    image_size: int = 224,
    **options: Any,
) -> MultiLabelBenchmark:
    """Read all images and classes of a table as one experience; see :func:`from_csv` for the format.

    Images without any label are kept as negatives.
    """
    table = read_csv(labels, images=images)
    train, test, names = split_table(table, test_size=test_size, seed=seed)
    return MultiLabelBenchmark(
        train,
        test,
        [(range(len(train[0])), names)],
        class_names=names,
        seed=seed,
        image_size=image_size,
        train_transform=training_transform(image_size),
        eval_transform=evaluation_transform(image_size),
        **options,
    )


class ExtendedBenchmark(MultiLabelBenchmark):
    """A benchmark with one more experience.

    Its images are annotated for all classes in the table, including known ones; images without a new
    class are negatives. There may be no new class at all, only more images of known ones. Labels of
    classes not in the table are unknown, and so are labels of new classes in earlier test images.

    Args:
        before: The benchmark learned so far.
        new: The new images, see :func:`read_new_images`.
    """

    def __init__(self, before: MultiLabelBenchmark, new: MultiLabelBenchmark) -> None:
        arriving = [name for name in new.class_names if name not in before.class_names]
        self.class_names = [*before.class_names, *arriving]
        self.num_classes = len(self.class_names)
        self.scenario = Scenario(
            sizes=(*before.scenario.sizes, len(arriving)),
            class_order=(
                *before.scenario.class_order,
                *range(before.num_classes, self.num_classes),
            ),
            name=f"{before.scenario.name}+{len(arriving)}",
        )
        self._missing, self._fallback = before._missing, before._fallback
        self._transforms = before._transforms
        self.features = before.features
        streams = [self._extended(before, new, name) for name in before.streams]
        CLScenario.__init__(self, streams)

    def _extended(
        self, before: MultiLabelBenchmark, new: MultiLabelBenchmark, name: str
    ) -> EagerCLStream:
        training = name == "train"
        learned = [
            self._widened(experience, training=training) for experience in before.streams[name]
        ]
        fresh = (new.train_stream if training else new.test_stream)[0]
        columns = [self.class_names.index(name) for name in new.class_names]
        parts = [self._new_part(fresh, columns, training=training)]
        if not training:
            parts.insert(0, self._old_part(before.streams[name][-1]))
        dataset = parts[0][0] if training else concat_datasets([part[0] for part in parts])
        truth = torch.cat([part[1] for part in parts])
        last = MultiLabelExperience(
            dataset=dataset,
            current_experience=len(learned),
            scenario=self.scenario,
            annotated_classes=columns if training else range(self.num_classes),
            image_indices=torch.arange(len(truth)),
            labels=truth,
            source=Inputs(dataset),
        )
        return EagerCLStream(name, [*learned, last], benchmark=self)

    def _widened(self, experience: MultiLabelExperience, *, training: bool) -> MultiLabelExperience:
        """An earlier experience with unknown labels and ground truth for each new class."""
        widened = copy.copy(experience)
        more = (0, self.num_classes - experience._labels.shape[1])
        widened._labels = pad(experience._labels, more, value=UNKNOWN)
        targets = pad(experience.dataset.targets.data, more, value=UNKNOWN)
        rows = torch.arange(len(targets))
        widened._dataset = self._again(experience.dataset, rows, targets, training=training)
        return widened

    def _new_part(
        self, experience: MultiLabelExperience, columns: list[int], *, training: bool
    ) -> tuple[AvalancheDataset, Tensor]:
        """The new images, with the table's classes in the given columns."""
        given = experience.full_targets
        truth = torch.full((len(given), self.num_classes), UNKNOWN)
        truth[:, columns] = given
        rows = torch.arange(len(truth))
        return self._again(experience.dataset, rows, truth.clone(), training=training), truth

    def _old_part(self, experience: MultiLabelExperience) -> tuple[AvalancheDataset, Tensor]:
        labels = experience.dataset.targets.data
        targets = pad(labels, (0, self.num_classes - labels.shape[1]), value=UNKNOWN)
        rows = torch.arange(len(targets))
        return self._again(experience.dataset, rows, targets, training=False), targets

    def _again(
        self, dataset: AvalancheDataset, rows: Tensor, targets: Tensor, *, training: bool
    ) -> AvalancheDataset:
        """Some inputs of a data set with other labels and this benchmark's transforms."""
        if self._missing == "negative":
            targets = targets.nan_to_num(nan=0.0)
        plain = Inputs(dataset.train().replace_current_transform_group((None, None)))
        plain.pictures = is_picture(plain[0])
        return self._dataset(plain, rows, targets, training)
