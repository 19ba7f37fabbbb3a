"""Prediction: the frozen backbone, the learned head, and the interpretation of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rebll_avalanche.benchmarks.feature_batches import computed
from rebll_avalanche.benchmarks.features import FrozenFeatures, SideBySide
from rebll_avalanche.benchmarks.transforms import evaluation_transform
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.learner.audit import Suspect, suspects
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.lesson import Evaluation
from rebll_avalanche.learner.pictures import Pictures
from rebll_avalanche.learner.quality import class_qualities
from rebll_avalanche.learner.ridge import left_out, records_of, ridge_of
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.models.adaptable import inference_only
from rebll_avalanche.running.network import build_for_inference, feature_maker
from rebll_avalanche.tables import AnnotationTable

Features = FrozenFeatures | SideBySide


def build_features(
    config: Config,
    weights: dict[str, Tensor] | None,
    expected_hash: str | None,
    shape: Sequence[int] | None = None,
) -> tuple[Features, str]:
    """The frozen feature extractor, and the hash of its weights.

    Args:
        config: Configuration of the learner.
        weights: Weights of the backbone, if the file includes them.
        expected_hash: Hash of the weights used in training, if any.
        shape: Shape of the inputs used in training, if any.

    Raises:
        DamagedError: When the weights do not fit the backbone, or the backbone what was learned.
        RebllError: When the weights differ from those used in training.
    """
    wanted = config.benchmark
    with inference_only():
        features = feature_maker(replace(wanted, features_pretrained=None) if weights else wanted)
    if weights:
        try:
            features.load_weights(weights)
        except Exception as error:  # forged states raise many kinds of errors
            raise DamagedError(
                f"the weights in this learner's file do not fit {wanted.features} "
                f"({type(error).__name__}: {str(error)[:200]})"
            ) from error
    found = features.weights_hash()
    if expected_hash not in (None, found):
        raise RebllError(
            f"this learner was taught with other weights of {wanted.features} than those installed here "
            f"({str(expected_hash)[:12]}..., found {found[:12]}...): install what it was "
            f"taught with, or save it with self_contained=True where that is"
        )
    if shape is not None:
        black = Pictures(["black"], [np.zeros((8, 8, 3), np.uint8)])
        made = list(features.of(black)[0].shape)
        if made != list(shape):
            raise DamagedError(
                f"{wanted.features} with these settings turns a picture into an input of shape {made}, "
                f"but the learned head takes {list(shape)}; restore a copy of the file, or teach a new "
                "learner"
            )
    return features, found


def build_learned(config: Config, know: Knowledge) -> MultiLabelModel:
    """The learned network, from vectors or pictures to the logits of all classes it predicts."""
    taught = know.require_taught()
    model = build_for_inference(config, tuple(taught["input_shape"]))
    state, visible = dict(taught["strategy"]["model"]), know.visible
    if know.forgotten:  # only heads with a row per class can forget one
        state |= {name: state[name][visible] for name in ("head.weight", "head.bias")}
    model.load_state_dict(state)
    return model.eval()


@torch.inference_mode()
def probabilities(network: MultiLabelModel, inputs: Tensor) -> Tensor:
    """Probabilities ``[pictures, classes]`` of all classes it predicts."""
    scores: Tensor = network(inputs).sigmoid()
    return scores


@torch.inference_mode()
def probabilities_and_vectors(network: MultiLabelModel, inputs: Tensor) -> Tensor:
    """The same, followed by each picture's feature vector."""
    maps = network.features(inputs)
    vectors = maps.flatten(2).mean(2) if maps.ndim == 4 else maps
    return torch.cat([probabilities(network, inputs), vectors], dim=1)


def answers(
    config: Config,
    features: Features | None,
    network: MultiLabelModel,
    pictures: Pictures,
    question: Callable[[MultiLabelModel, Tensor], Tensor] = probabilities,
) -> Tensor:
    """Evaluate the network on pictures, one row each.

    Args:
        config: Configuration of the learner.
        features: The feature extractor, if the backbone is frozen.
        network: The learned network.
        pictures: Decoded one after the other.
        question: Function of the network and a batch of inputs.
    """
    if features is not None:
        return question(network, features.of(pictures))
    square = evaluation_transform(side_of(config))
    return computed(partial(question, network), pictures, square, progress=True)


def sorted_scores(know: Knowledge, row: Sequence[float]) -> dict[str, float]:
    """The probability of every class, highest first."""
    pairs = zip(know.class_names, row, strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def classes_above(know: Knowledge, row: Sequence[float]) -> dict[str, float]:
    """The classes above their thresholds, most probable first."""
    thresholds = know.visible_thresholds.tolist()
    found = zip(know.class_names, row, thresholds, strict=True)
    above = [(name, score) for name, score, threshold in found if score > threshold]
    return dict(sorted(above, key=lambda pair: -pair[1]))


def require_known_classes(know: Knowledge, read: AnnotationTable) -> list[str]:
    """The classes of a table that were learned.

    Raises:
        RebllError: When there are none.
    """
    known = [name for name in read.class_names if name in know.class_names]
    if not known:
        raise RebllError(
            f"{read.source} names none of the classes that were learned: "
            f"{', '.join(know.class_names)}"
        )
    return known


def evaluation(
    know: Knowledge, read: AnnotationTable, keys: Sequence[int], labels: Tensor, scores: Tensor
) -> Evaluation:
    """Quality of scores on a table.

    Args:
        know: Knowledge with thresholds and lessons.
        read: The table, with at least one known class.
        keys: Keys of its pictures.
        labels: ``[pictures, classes of the table]``.
        scores: ``[pictures, classes it predicts]``.
    """
    known = require_known_classes(know, read)
    columns = [know.class_names.index(name) for name in known]
    given = labels[:, [read.class_names.index(name) for name in known]]
    thresholds = know.visible_thresholds[columns]
    learned = know.learned_keys
    return Evaluation(
        source=read.source,
        qualities=tuple(class_qualities(known, scores[:, columns], given, thresholds)),
        unknown_classes=tuple(name for name in read.class_names if name not in known),
        learned_pictures=sum(key in learned for key in keys),
        pictures=len(keys),
    )


def wrong_labels(know: Knowledge, count: int | None) -> list[Suspect]:
    """Labels that leave-one-out scores contradict; see :meth:`Learner.audit`."""
    ridge = ridge_of(know.require_taught())
    visible, records = know.visible, records_of(ridge, "auditing")
    scores, labels = left_out(ridge)
    names = know.names_of()
    # Pictures learned in a run have no name to show.
    rows = [row for row, key in enumerate(records.index) if key in names]
    keys = [key for key in records.index if key in names]
    return suspects(
        [names[key] for key in keys],
        keys,
        scores[rows][:, visible],
        labels[rows][:, visible],
        know.visible_thresholds,
        know.class_names,
        count,
    )


def side_of(config: Config) -> int:
    """Side of the squares that pictures are scaled to for a trained backbone."""
    return config.benchmark.image_size or 224
