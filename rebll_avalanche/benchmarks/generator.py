"""Streams of multi-label experiences for Avalanche, from any labels and any images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from avalanche.benchmarks.scenarios.generic_scenario import CLScenario, EagerCLStream
from torch import Tensor

from rebll_avalanche.arguments import check_callable, check_number, check_path
from rebll_avalanche.benchmarks import streams
from rebll_avalanche.benchmarks.checks import checked_split, usable_source
from rebll_avalanche.benchmarks.experience import MultiLabelExperience, labelled_dataset
from rebll_avalanche.benchmarks.images import ImageFiles, Rows, Source
from rebll_avalanche.benchmarks.kept import KeptPictures
from rebll_avalanche.benchmarks.streams import Annotations, Part
from rebll_avalanche.benchmarks.targets import LabelView
from rebll_avalanche.benchmarks.transforms import (
    LARGEST_SIDE,
    Transform,
    evaluation_transform,
    first_size,
    to_unit_range,
)
from rebll_avalanche.labels import UNKNOWN
from rebll_avalanche.scenario import ClassOrder, Experiences, Scenario
from rebll_avalanche.words import brief, check_choice, check_class_names

MODES = ("overlap", "disjoint", "once", "repetition")
MISSING = ("nan", "negative")
ON_ERROR = ("raise", "skip")
# Larger numbers are slips, and would fill all memory.
MOST_EXPERIENCES = 10**6


class MultiLabelBenchmark(CLScenario):
    """An Avalanche benchmark of multi-label experiences; see :func:`multilabel_benchmark`.

    Attributes:
        scenario: The classes of each experience.
        class_names: One per label column, in order of learning.
        train_stream: Experience t: some images, annotated for some of the classes seen so far. In the
            modes ``"overlap"``, ``"disjoint"`` and ``"once"``: images with a new class, annotated for
            the new classes.
        test_stream: Experience t: images with a class seen so far, annotated for all of these.
        valid_stream: Like ``test_stream``, from held-out training images; only with ``validation_size``.
        features: The feature extractor, or None for images.
    """

    train_stream: Any
    test_stream: Any
    valid_stream: Any

    def __init__(
        self,
        train: tuple[Any, Any],
        test: tuple[Any, Any],
        scenario: str | Experiences | Scenario | Annotations,
        *,
        class_names: Sequence[str] | None = None,
        class_order: ClassOrder = "alphabetical",
        mode: str = "overlap",
        experiences: int | None = None,
        return_chance: float = 0.5,
        images_per_class: int | None = None,
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
        check_class_names(class_names)
        check_number("validation_size", validation_size, 0)
        check_number("seed", seed, 0, 2**63 - 1, whole=True)
        if image_size is not None:
            check_number("image_size", image_size, 1, LARGEST_SIDE, whole=True)
        check_path("image_cache", image_cache)
        check_callable("train_transform", train_transform)
        check_callable("eval_transform", eval_transform)
        check_callable("features", features)
        train_source, train_labels = checked_split("train", train)
        test_source, test_labels = checked_split("test", test)
        num_classes = train_labels.shape[1]
        if test_labels.shape[1] != num_classes:
            raise ValueError(
                f"train has labels for {num_classes} classes, test for {test_labels.shape[1]}"
            )
        listed = scenario if streams.is_annotations(scenario) else None
        if listed is not None:
            classes = [annotated for _, annotated in listed]
            self.scenario = Scenario.of_annotations(classes, num_classes, class_names=class_names)
        else:
            self.scenario = Scenario.parse(
                scenario,  # type: ignore[arg-type]
                num_classes,
                class_names=class_names,
                class_order=class_order,
            )
        if mode == "repetition" and listed is None:
            check_number("return_chance", return_chance, 0, 1)
            if images_per_class is not None:
                check_number("images_per_class", images_per_class, 1, whole=True)
            wanted = 2 * len(self.scenario) if experiences is None else experiences
            check_number("experiences", wanted, 1, MOST_EXPERIENCES, whole=True)
            self.scenario = self.scenario.spread(wanted)
        self.num_classes = num_classes
        names = class_names or [str(column) for column in range(num_classes)]
        self.class_names = [names[column] for column in self.scenario.class_order]
        self._missing = missing
        # Images must at least be converted to tensors; other inputs are passed on unchanged.
        self._fallback = evaluation_transform(image_size) if image_size else to_unit_range
        self._transforms = {"train": train_transform, "eval": eval_transform}

        order = torch.tensor(self.scenario.class_order)
        train_labels, test_labels = train_labels[:, order], test_labels[:, order]
        pipeline = (image_size, image_cache, on_error)
        train_source, usable = usable_source("train", train_source, *pipeline)
        test_source, test_usable = usable_source("test", test_source, *pipeline)
        self.features = features
        if features is not None:
            train_source = Rows(features(train_source), train_source)
            test_source = Rows(features(test_source), test_source)
            self._transforms = {"train": None, "eval": None}
        if isinstance(train_source, ImageFiles):
            uses = [self._transforms[group] or self._fallback for group in ("train", "eval")]
            train_source = KeptPictures(train_source, first_size(uses))
        held_out = _held_out(len(train_labels), validation_size, seed)
        kept = usable & ~held_out
        positives = (train_labels == 1) & kept[:, None]
        if listed is not None:
            parts = streams.explicit(listed, kept, self._column_finder(class_names))
        elif mode == "repetition":
            parts = streams.repetition(
                positives, self.scenario, chance=return_chance, images=images_per_class, seed=seed
            )
        elif mode == "once":
            parts = streams.once(positives, self.scenario, seed)
        else:
            build = streams.overlap if mode == "overlap" else streams.disjoint
            parts = build(positives, self.scenario)
        test_positives = (test_labels == 1) & test_usable[:, None]
        built = {
            "train": (train_source, train_labels, parts),
            "test": (test_source, test_labels, streams.seen(test_positives, self.scenario)),
        }
        if held_out.any():
            positives = (train_labels == 1) & (usable & held_out)[:, None]
            built["valid"] = (train_source, train_labels, streams.seen(positives, self.scenario))
        super().__init__([self._stream(name, *content) for name, content in built.items()])

    def _column_finder(self, class_names: Sequence[str] | None) -> Callable[[Any], int]:
        column_of = {index: column for column, index in enumerate(self.scenario.class_order)}
        index_of = {name: index for index, name in enumerate(class_names or ())}
        return lambda entry: column_of[index_of[entry] if isinstance(entry, str) else int(entry)]

    def _stream(
        self, name: str, source: Source, labels: Tensor, parts: Sequence[Part]
    ) -> EagerCLStream:
        unknown = 0.0 if self._missing == "negative" else UNKNOWN
        transforms = self._transforms
        if source.pictures:
            transforms = {group: own or self._fallback for group, own in transforms.items()}
        experiences = []
        for step, ((lo, hi), (indices, columns)) in enumerate(
            zip(self.scenario.ranges, parts, strict=True)
        ):
            absent = sorted(set(range(lo, hi)) - set(columns)) if len(indices) else columns
            if absent or not len(indices):
                names = ", ".join(brief(self.class_names[column])[1:-1] for column in absent[:20])
                what = "lacks a new class" if len(indices) else "is empty"
                raise ValueError(
                    f"experience {step} of the {name} stream {what}: no image has {names or 'come'}; "
                    "merge it with another experience or add images"
                )
            targets = LabelView(labels, indices, columns, unknown)
            dataset = labelled_dataset(source, indices, targets, transforms)
            experiences.append(
                MultiLabelExperience(
                    dataset=dataset if name == "train" else dataset.eval(),
                    current_experience=step,
                    scenario=self.scenario,
                    annotated_classes=columns,
                    image_indices=indices,
                    labels=labels,
                    source=source,
                )
            )
        return EagerCLStream(name, experiences, benchmark=self)


def multilabel_benchmark(
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    scenario: str | Experiences | Scenario | Annotations,
    **options: Any,
) -> MultiLabelBenchmark:
    """Streams of experiences from labels and images.

    Args:
        train: ``(images, labels)``. Images are paths, an array, or a map-style data set; streams
            are built from labels alone. Labels are ``[samples, classes]`` of 1, 0, or NaN (unknown).
        test: The same for the test images.
        scenario: ``"B5-C3"``, one list of classes per experience, or a :class:`Scenario`. A list of pairs
            ``(rows, classes)`` gives for each experience its training images and the classes they are
            annotated for; classes may reappear, and none need be new.
        **options: Accepted by every benchmark of this package:

            * ``class_names``: in the order of the label columns.
            * ``class_order``: ``"alphabetical"``, a list, or a seed; see :meth:`Scenario.parse`.
            * ``mode``: ``"overlap"`` uses an image in every experience that has one of its classes,
              ``"disjoint"`` only in the last of these, so that no image shows a later class, and
              ``"once"`` in a random one of these, drawn by ``seed``. In ``"repetition"`` an image is also
              used at most once, and classes reappear with other images.
            * ``experiences``, ``return_chance``, ``images_per_class``: for ``"repetition"``: the number of
              experiences (twice the scenario's by default, with new classes spread evenly), the
              probability that an earlier class reappears in an experience, and the maximum images of a
              class per experience (by default its images are divided evenly).
            * ``missing``: ``"nan"`` leaves unannotated labels unknown, ``"negative"`` sets them to 0: labels
              like any other, which are trained on and not distilled.
            * ``validation_size``: fraction or number of training images held out by ``seed``.
            * ``train_transform``, ``eval_transform``: convert one input to a tensor; by default images
              become tensors in [0, 1] and other inputs are passed on unchanged.
            * ``image_size``: side of the square that images without a transform are resized to.
            * ``image_cache``: folder for decoded images of that size.
            * ``on_error``: ``"raise"``, or ``"skip"`` to leave out broken image files. Files are
              checked before training, and the result is cached by content.
            * ``features``: computes one feature vector per image, which replaces it; see
              :class:`rebll_avalanche.benchmarks.features.FrozenFeatures`.

    Returns:
        A benchmark with ``train_stream``, ``test_stream`` and, with ``validation_size``, ``valid_stream``.

    >>> import torch
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> benchmark = multilabel_benchmark((x, y), (x, y), "B2-C1")
    >>> [sorted(experience.new_classes) for experience in benchmark.train_stream]
    [[0, 1], [2], [3]]
    >>> benchmark.train_stream[1].dataset[0][1]  # annotated for its own class only
    tensor([nan, nan, 1., nan])
    """
    return MultiLabelBenchmark(train, test, scenario, **options)


def _held_out(count: int, validation_size: float, seed: int) -> Tensor:
    """Boolean mask of the held-out training images, drawn by seed."""
    wanted = round(validation_size * count) if validation_size < 1 else int(validation_size)
    if not 0 <= wanted < count:
        raise ValueError(
            f"validation_size={validation_size} would hold out {wanted} of {count} training images"
        )
    held_out = torch.zeros(count, dtype=torch.bool)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held_out[shuffled[:wanted]] = True
    return held_out
