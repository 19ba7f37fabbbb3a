"""Predict class scores and activation maps with the model of a finished run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from rebll_avalanche.arguments import check_path
from rebll_avalanche.benchmarks.features import FrozenFeatures, SideBySide, check_same_weights
from rebll_avalanche.benchmarks.transforms import KeepAspect, evaluation_transform
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.manifest import check_manifest
from rebll_avalanche.models import GrowingHead, MultiLabelModel
from rebll_avalanche.models.adaptable import inference_only
from rebll_avalanche.models.heads import GrowingLinear
from rebll_avalanche.models.weights import not_finite
from rebll_avalanche.models.windows import PER_SIDE
from rebll_avalanche.pictures import to_rgb
from rebll_avalanche.run_files import CHECKPOINT, CONFIG, check_no_links
from rebll_avalanche.running.folder import read_config, recorded_shape
from rebll_avalanche.running.network import build_for_inference, feature_maker, set_up_speed


@dataclass(frozen=True)
class TrainedModel:
    """The model of a run after its last finished experience.

    Attributes:
        folder: The run.
        config: Its settings.
        model: The model in evaluation mode, on the CPU, in float32.
        class_names: Names of its logits.
        image_size: Side of the square that images are resized to.
        keep_aspect: Keep about the aspect ratio instead, with ``image_size`` as the shorter side.
        features: The frozen feature extractor, if there are several backbones or windows; otherwise the
            model takes images.
        thresholds: One threshold per class, if they differ from the single threshold of evaluation.
    """

    folder: Path
    config: Config
    model: MultiLabelModel
    class_names: tuple[str, ...]
    image_size: int
    keep_aspect: bool = False
    features: FrozenFeatures | SideBySide | None = None
    thresholds: tuple[float, ...] | None = None

    @property
    def threshold(self) -> float:
        """The first threshold of the run's evaluation."""
        return self.config.evaluation.thresholds[0]

    def prepare(self, pictures: Sequence[Image.Image]) -> Tensor:
        """Convert images to a model input as in evaluation: in [0, 1], squares or of one shape.

        With :attr:`features`, the features of images of any shape.
        """
        if self.features is not None:
            return self.features.of([to_rgb(picture) for picture in pictures])
        make = KeepAspect if self.keep_aspect else evaluation_transform
        transform = make(self.image_size)
        return torch.stack([transform(to_rgb(picture)) for picture in pictures])

    @torch.no_grad()
    def scores(self, inputs: Tensor) -> Tensor:
        """Probabilities ``[batch, classes]`` for prepared inputs."""
        logits: Tensor = self.model(inputs)
        return logits.sigmoid()

    def predict(self, pictures: Sequence[Image.Image]) -> list[dict[str, float]]:
        """The score of every class for each image, highest first."""
        # Images of different shapes cannot be batched.
        one_by_one = self.keep_aspect and self.features is None
        batches = [[picture] for picture in pictures] if one_by_one else [pictures]
        answers = []
        for batch in batches:
            for row in self.scores(self.prepare(batch)).tolist():
                pairs = zip(self.class_names, row, strict=True)
                answers.append(dict(sorted(pairs, key=lambda pair: -pair[1])))
        return answers

    def activation_maps(self, inputs: Tensor, *, grad_cam: bool = False) -> Tensor:
        """Class activation maps ``[batch, classes, h, w]`` between 0 and 1.

        Each map is scaled so that its maximum is 1; the strength of the evidence is in the score.

        Args:
            inputs: The result of :meth:`prepare`.
            grad_cam: Use Grad-CAM instead of the head's own maps; always used if the head has none.
        """
        if self.features is not None:
            maps = self._window_maps(inputs)
            return maps / maps.amax(dim=(2, 3), keepdim=True)
        own = type(self.model.head).class_activation_maps is not GrowingHead.class_activation_maps
        # A head on vectors has no spatial positions; the feature map before pooling has.
        if own and not grad_cam and not isinstance(self.model.backbone, VectorsOfMaps):
            with torch.no_grad():
                maps = self.model.head.class_activation_maps(self.model.features(inputs))
        else:
            maps = _grad_cam(self.model, inputs)
        positive = maps.clamp(min=0)
        strongest = positive.amax(dim=(2, 3), keepdim=True)
        return positive / strongest.clamp(min=torch.finfo(positive.dtype).tiny)

    @torch.no_grad()
    def _window_maps(self, inputs: Tensor) -> Tensor:
        """The probability of each class in each window."""
        if not self.model.has_windows(inputs):
            raise ValueError(
                f"{self.folder} was trained on features of several backbones, which have no common map; "
                "maps need a run with one backbone, or with benchmark.features_windows"
            )
        scores = self.model(inputs[:, 1:].flatten(0, 1)).sigmoid()
        places: Tensor = scores.unflatten(0, (len(inputs), PER_SIDE, PER_SIDE))
        return places.permute(0, 3, 1, 2)


def load_run(folder: str | Path) -> TrainedModel:
    """Load the model of a run after the last experience that it has finished.

    Raises:
        FileNotFoundError: When the folder is not a run, or has not finished an experience.
        DamagedError: When its files are damaged, or its weights are not finite.
        UnsafeError: When the folder contains a link.
        ValueError: When it was not trained on images.

    >>> import tempfile
    >>> from rebll_avalanche import run_experiment
    >>> from rebll_avalanche.configuration.config import Config
    >>> scenes = {"name": "scenes", "train_size": 40, "test_size": 20, "scenario": "B10-C10"}
    >>> settings = {"benchmark": scenes, "training": {"epochs": 1}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     steps = run_experiment(Config.from_dict(settings), Path(folder))
    ...     model = load_run(folder)
    >>> [labels] = model.predict([Image.new("RGB", (48, 48))])
    >>> len(labels)  # a probability per class
    20
    """
    check_path("folder", folder, needed=True)
    with inference_only():
        return _load(Path(folder))


def _load(folder: Path) -> TrainedModel:
    check_no_links(folder)
    record = read_config(folder)
    config = Config.from_dict(record)
    check_manifest(folder)
    end = CheckpointFolder(folder / CHECKPOINT).newest().end
    if not end:
        raise FileNotFoundError(
            f"{folder} has not finished its first experience; run `rebll run` until it has"
        )
    shape = recorded_shape(folder, record)
    of_features = config.benchmark.features is not None
    if len(shape) != 3 and not of_features:
        raise ValueError(f"{folder} was trained on inputs of shape {shape}, not on images")
    model = build_for_inference(config, shape)
    try:
        model.load_state_dict(_learned(end, folder))
    except RuntimeError as error:
        maker = record.get("versions", {}).get("rebll-avalanche", "of unknown number")
        raise ValueError(
            f"the weights in {folder} do not fit the network that its {CONFIG} describes; it was made "
            f"with rebll-avalanche {maker}, install that version to use it. ({error})"
        ) from error
    if wrong := not_finite(model.state_dict()):
        raise DamagedError(
            f"the model in {folder} cannot be used: {wrong} holds numbers that are not finite, probably "
            "because training diverged; train it again with a smaller training.lr"
        )
    features = None
    if of_features:
        features = feature_maker(config.benchmark)
        check_same_weights(features.weights, record.get("weights", {}))
    names = _class_names(record, model.num_classes, folder)
    trained = joined_model(config, features, model, names, shape[-1], folder)
    set_up_speed(trained.model, replace(config.training, compile=False))
    return trained


def joined_model(
    config: Config,
    features: FrozenFeatures | SideBySide | None,
    learned: MultiLabelModel,
    class_names: tuple[str, ...],
    side: int,
    folder: Path,
    thresholds: tuple[float, ...] | None = None,
) -> TrainedModel:
    """From pictures to probabilities: a frozen backbone, and what was learned from its vectors or maps.

    Args:
        config: The settings of both.
        features: The frozen backbone; none if pictures themselves were learned from.
        learned: What was learned.
        class_names: Names of its logits.
        side: Of the squares that pictures were scaled to, if there is no backbone.
        folder: For messages.
        thresholds: One per class, if they differ.
    """
    benchmark, model = config.benchmark, learned
    # Several backbones and windows cannot be one network; pictures go through them first.
    apart = isinstance(features, SideBySide) or benchmark.features_windows
    if isinstance(features, FrozenFeatures) and not apart:
        model = copy.deepcopy(features.model)
        if benchmark.features_until is not None:  # its last part was trained
            model.head = learned.head
            model.load_state_dict(model.state_dict() | learned.state_dict())
        else:
            if config.model.hidden or not isinstance(learned.head, GrowingLinear):
                model.backbone = VectorsOfMaps(model.backbone, learned.backbone)
            # Otherwise the head pools by itself, and its feature map can be shown.
            model.head = learned.head
    return TrainedModel(
        folder=folder,
        config=config,
        model=model.eval(),
        class_names=class_names,
        image_size=side if features is None else benchmark.views[0][1],
        keep_aspect=benchmark.features_aspect == "kept",
        features=features if apart else None,
        thresholds=thresholds,
    )


def _learned(end: dict[str, Any], folder: Path) -> dict[str, Tensor]:
    strategy = end.get("strategy")
    model = strategy.get("model") if isinstance(strategy, dict) else None
    if not isinstance(model, dict) or not all(isinstance(v, Tensor) for v in model.values()):
        raise DamagedError(f"the checkpoint in {folder} holds no weights; restore a copy of it")
    return model


def _class_names(record: dict[str, Any], count: int, folder: Path) -> tuple[str, ...]:
    names = record.get("class_names")
    if not isinstance(names, list) or len(names) < count:
        raise DamagedError(
            f"{folder / CONFIG} does not name the {count} classes of the model; "
            "restore the file that the run wrote"
        )
    return tuple(map(str, names[:count]))


class VectorsOfMaps(nn.Module):
    """A frozen backbone with average pooling, followed by a model trained on its vectors.

    Args:
        maps: The frozen backbone.
        learned: The model on vectors.
    """

    def __init__(self, maps: nn.Module, learned: nn.Module) -> None:
        super().__init__()
        self.maps = maps
        self.learned = learned

    def forward(self, x: Tensor) -> Tensor:
        """Vectors."""
        vectors: Tensor = self.learned(self.maps(x).mean(dim=(2, 3)))
        return vectors


def reduced(picture: Image.Image) -> Image.Image:
    """An image for a page, whose longer side has at most 320 pixels."""
    small = to_rgb(picture).copy()
    small.thumbnail((320, 320))
    return small


def overlay(picture: Image.Image, activation: Tensor) -> Image.Image:
    """Draw a map ``[h, w]`` over a reduced image: dimmed without evidence, coloured where there is some."""
    from matplotlib import colormaps

    picture = reduced(picture)
    size = (picture.height, picture.width)
    smooth = nn.functional.interpolate(
        activation[None, None], size, mode="bilinear", align_corners=False
    )
    strength = smooth[0, 0].numpy()
    colour = colormaps["inferno"](0.35 + 0.6 * strength)[..., :3] * 255
    weight = (0.75 * strength)[..., None]
    # Dim the rest of the image, so that the map is not mistaken for its colours.
    dimmed = 0.75 * np.asarray(picture, dtype=np.float32)
    return Image.fromarray((dimmed * (1 - weight) + colour * weight).astype(np.uint8))


def _grad_cam(model: MultiLabelModel, inputs: Tensor) -> Tensor:
    try:
        from captum.attr import LayerGradCam
    except ImportError as error:
        raise ValueError(
            f"{type(model.head).__name__} needs Grad-CAM; run: pip install 'rebll-avalanche[cam]'"
        ) from error
    backbone = model.backbone
    explainer = LayerGradCam(
        model, backbone.maps if isinstance(backbone, VectorsOfMaps) else backbone
    )
    maps = [
        explainer.attribute(inputs, target=column).detach() for column in range(model.num_classes)
    ]
    square = inputs.shape[2] == inputs.shape[3]
    if maps[0].ndim != 4 or (square and maps[0].shape[2] != maps[0].shape[3]):
        raise ValueError(
            f"Grad-CAM needs a backbone that ends in a square map, got {tuple(maps[0].shape)}"
        )
    return torch.cat(maps, dim=1)
