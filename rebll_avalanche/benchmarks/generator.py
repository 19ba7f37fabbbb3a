"""Streams of multi-label experiences for Avalanche, from any labels and any images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from avalanche.benchmarks.scenarios.dataset_scenario import DatasetExperience
from avalanche.benchmarks.scenarios.generic_scenario import CLScenario, EagerCLStream
from avalanche.benchmarks.utils.data import AvalancheDataset
from avalanche.benchmarks.utils.transform_groups import TransformGroups
from torch import Tensor

from rebll_avalanche.benchmarks.checks import checked_split, usable_source
from rebll_avalanche.benchmarks.dataset import MultiLabelDataset, Samples
from rebll_avalanche.benchmarks.images import ImageFiles, Rows, Source
from rebll_avalanche.benchmarks.kept import KeptPictures
from rebll_avalanche.benchmarks.targets import MultiLabelTargets
from rebll_avalanche.benchmarks.transforms import (
    Transform,
    evaluation_transform,
    first_size,
    for_pictures,
    to_unit_range,
)
from rebll_avalanche.labels import UNKNOWN
from rebll_avalanche.scenario import ClassOrder, Experiences, Scenario
from rebll_avalanche.words import check_choice

MODES = ("overlap", "disjoint")
MISSING = ("nan", "negative")
ON_ERROR = ("raise", "skip")


class MultiLabelExperience(DatasetExperience):
    """An Avalanche experience that knows which classes it brings.

    Attributes:
        classes_in_this_experience: Columns that arrive with it.
        previous_classes: Columns of earlier experiences.
        classes_seen_so_far: Both.
        future_classes: Columns of later experiences.
        image_indices: For each sample, the index of its image among those given for the split.
    """

    def __init__(
        self,
        *,
        dataset: AvalancheDataset,
        current_experience: int,
        scenario: Scenario,
        image_indices: Tensor,
        labels: Tensor,
        source: Source,
    ) -> None:
        super().__init__(dataset=dataset, current_experience=current_experience)
        lo, hi = scenario.ranges[current_experience]
        self.classes_in_this_experience = set(range(lo, hi))
        self.previous_classes = set(range(lo))
        self.classes_seen_so_far = set(range(hi))
        self.future_classes = set(range(hi, scenario.num_classes))
        self.image_indices = image_indices
        self._labels = labels
        self._source = source

    def keep_decoded(self, samples: Tensor) -> None:
        """Somebody will read these samples again and again: decode their pictures only once."""
        if isinstance(self._source, KeptPictures):
            self._source.keep(self.current_experience, self.image_indices[samples].tolist())

    @property
    def full_targets(self) -> Tensor:
        """The whole truth about these samples: to score relabelling with, never to train on."""
        return self._labels[self.image_indices]


class MultiLabelBenchmark(CLScenario):
    """An Avalanche benchmark of multi-label experiences; see :func:`multilabel_benchmark`.

    Attributes:
        scenario: Which classes arrive when.
        class_names: In order of learning, one per label column.
        train_stream: Experience t: images with a class of t, annotated for the classes of t.
        test_stream: Experience t: images with a class seen by then, annotated for all of these.
        valid_stream: Like ``test_stream``, from images held out of training; only when asked.
        features: What made vectors of the images, if anything did.
    """

    train_stream: Any
    test_stream: Any
    valid_stream: Any

    def __init__(
        self,
        train: tuple[Any, Any],
        test: tuple[Any, Any],
        scenario: str | Experiences | Scenario,
        *,
        class_names: Sequence[str] | None = None,
        class_order: ClassOrder = "alphabetical",
        mode: str = "overlap",
        missing: str = "nan",
        validation_size: float = 0,
        seed: int = 0,
        train_transform: Transform | None = None,
        eval_transform: Transform | None = None,
        image_size: int | None = None,
        image_cache: str | Path | None = None,
        on_error: str = "raise",
        features: Callable[[Source], Tensor] | None = None,
    ) -> None:
        check_choice("mode", mode, MODES)
        check_choice("missing", missing, MISSING)
        check_choice("on_error", on_error, ON_ERROR)
        train_source, train_labels = checked_split("train", *train)
        test_source, test_labels = checked_split("test", *test)
        num_classes = train_labels.shape[1]
        if test_labels.shape[1] != num_classes:
            raise ValueError(
                f"train has labels for {num_classes} classes, test for {test_labels.shape[1]}"
            )
        self.scenario = Scenario.parse(
            scenario, num_classes, class_names=class_names, class_order=class_order
        )
        self.num_classes = num_classes
        names = class_names or [str(column) for column in range(num_classes)]
        self.class_names = [names[column] for column in self.scenario.class_order]
        self._missing = missing
        # What is a picture must at least become a tensor; anything else is passed on as it is.
        self._fallback = evaluation_transform(image_size) if image_size else to_unit_range
        self._transforms = {"train": train_transform, "eval": eval_transform}

        order = torch.tensor(self.scenario.class_order)
        train_labels, test_labels = train_labels[:, order], test_labels[:, order]
        pipeline = (image_size, image_cache, on_error)
        train_source = usable_source("train", train_source, train_labels, *pipeline)
        test_source = usable_source("test", test_source, test_labels, *pipeline)
        self.features = features
        if features is not None:
            train_source, test_source = Rows(features(train_source)), Rows(features(test_source))
            self._transforms = {"train": None, "eval": None}
        if isinstance(train_source, ImageFiles):
            uses = [self._transforms[group] or self._fallback for group in ("train", "eval")]
            train_source = KeptPictures(train_source, first_size(uses))
        kept, held_out = _cut(len(train_labels), validation_size, seed)
        streams = {
            "train": (train_source, train_labels, kept, mode),
            "test": (test_source, test_labels, torch.arange(len(test_labels)), "seen"),
        }
        if len(held_out):
            streams["valid"] = (train_source, train_labels, held_out, "seen")
        super().__init__([self._stream(name, *parts) for name, parts in streams.items()])

    def _stream(
        self, name: str, source: Source, labels: Tensor, candidates: Tensor, rule: str
    ) -> EagerCLStream:
        experiences = []
        chosen = _landing(labels[candidates] == 1, self.scenario, rule)
        for step, ((lo, hi), rows) in enumerate(zip(self.scenario.ranges, chosen, strict=True)):
            if not len(rows):
                missed = ", ".join(self.class_names[0 if rule == "seen" else lo : hi])
                raise ValueError(
                    f"experience {step} of the {name} stream is empty: no image has {missed}; "
                    "merge it with another experience or add images"
                )
            indices = candidates[rows]
            targets = labels.index_select(0, indices)
            targets[:, hi:] = UNKNOWN
            if rule != "seen":
                targets[:, :lo] = UNKNOWN
            if self._missing == "negative":
                targets.nan_to_num_(nan=0.0)
            experiences.append(
                MultiLabelExperience(
                    dataset=self._dataset(source, indices, targets, training=name == "train"),
                    current_experience=step,
                    scenario=self.scenario,
                    image_indices=indices,
                    labels=labels,
                    source=source,
                )
            )
        return EagerCLStream(name, experiences, benchmark=self)

    def _dataset(
        self, source: Source, indices: Tensor, targets: Tensor, training: bool
    ) -> AvalancheDataset:
        groups = dict(self._transforms)  # Avalanche changes the one it is given
        if source.pictures:
            groups = {group: for_pictures(own or self._fallback) for group, own in groups.items()}
        dataset = MultiLabelDataset(
            [Samples(source, indices, targets)],
            data_attributes=[MultiLabelTargets(targets)],
            transform_groups=TransformGroups(groups),
        )
        return dataset if training else dataset.eval()


def multilabel_benchmark(
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    scenario: str | Experiences | Scenario,
    **options: Any,
) -> MultiLabelBenchmark:
    """Streams of experiences from labels and images.

    Args:
        train: ``(images, labels)``. Images are paths, an array, or a map-style data set; streams
            are built from labels alone. Labels are ``[samples, classes]`` of 1, 0, or NaN (unknown).
        test: The same for the test images.
        scenario: ``"B5-C3"``, one list of classes per experience, or a :class:`Scenario`.
        **options: Passed on by every benchmark of this package:

            * ``class_names``: in the order of the label columns.
            * ``class_order``: ``"alphabetical"``, a list, or a seed; see :meth:`Scenario.parse`.
            * ``mode``: ``"overlap"`` uses an image in each experience that it has a class of,
              ``"disjoint"`` only in the last of these, so that no later class hides in an image.
            * ``missing``: ``"nan"`` leaves unannotated labels unknown, ``"negative"`` makes them 0.
            * ``validation_size``: fraction or number of training images held out by ``seed``.
            * ``train_transform``, ``eval_transform``: from one input to a tensor; where there is
              none, pictures become tensors in [0, 1] and anything else is passed on as it is.
            * ``image_size``: side of the square that pictures without a transform are resized to.
            * ``image_cache``: a folder to keep decoded pictures of that size in.
            * ``on_error``: ``"raise"``, or ``"skip"`` to go on without broken picture files. Files are
              checked here, before any epoch, and the outcome is remembered by their content.
            * ``features``: makes one vector of each picture, once, and experiences hold these; see
              :class:`rebll_avalanche.benchmarks.features.FrozenFeatures`.

    Returns:
        A benchmark with ``train_stream``, ``test_stream`` and, when asked, ``valid_stream``.
    """
    return MultiLabelBenchmark(train, test, scenario, **options)


def _cut(count: int, validation_size: float, seed: int) -> tuple[Tensor, Tensor]:
    """Indices that stay and indices that are held out, both in their old order."""
    held_out = round(validation_size * count) if validation_size < 1 else int(validation_size)
    if not 0 <= held_out < count:
        raise ValueError(
            f"validation_size={validation_size} asks for {held_out} of {count} training images"
        )
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return shuffled[held_out:].sort().values, shuffled[:held_out].sort().values


def _landing(positives: Tensor, scenario: Scenario, rule: str) -> list[Tensor]:
    """For each experience, the rows whose images it uses."""
    uses = torch.stack([positives[:, lo:hi].any(dim=1) for lo, hi in scenario.ranges])
    if rule == "seen":
        uses = uses.cummax(dim=0).values
    elif rule == "disjoint":
        later = uses.flip(0).cummax(dim=0).values.flip(0)
        uses[:-1] &= ~later[1:]
    return [row.nonzero().flatten() for row in uses]
