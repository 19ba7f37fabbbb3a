"""Open a finished run as a learner that continues with the run's method."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rebll_avalanche.benchmarks.features import check_same_weights
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.learner.judging import with_thresholds
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.lesson import Lesson, of_run
from rebll_avalanche.learner.methods import check_can_go_on, is_exact
from rebll_avalanche.learner.predicting import build_features
from rebll_avalanche.learner.quality import EVEN
from rebll_avalanche.learner.storing import Stored, to_go_on
from rebll_avalanche.run_files import CHECKPOINT, check_no_links
from rebll_avalanche.running.folder import (
    finished_records,
    is_finished,
    read_config,
    recorded_shape,
    with_first_defaults,
)


def open_run(folder: Path) -> Stored:
    """The state of a learner from a run, without reading its images or tables.

    Raises:
        RebllError: When the run is not finished, or its method cannot continue.
        DamagedError: When its files were changed since.
    """
    # Imported here because it needs Avalanche, which prediction does not.
    from rebll_avalanche.checkpointing.memory_images import are_kept

    check_no_links(folder)
    record = read_config(folder)
    config = with_first_defaults(record, Config.from_dict(record), folder)
    config = _as_lessons(config, recorded_shape(folder, record), folder)
    check_can_go_on(config)
    if not is_finished(folder):
        raise RebllError(f"{folder} is not finished; continue with `rebll run` first")
    records = finished_records(folder)
    end = CheckpointFolder(folder / CHECKPOINT).newest().end
    if not are_kept(end["strategy"], end.get("memory_images", {})):
        raise DamagedError(
            f"the last checkpoint of {folder} does not hold the images of its memory; run it again"
        )
    backbone_hash = None
    if config.benchmark.features is not None:
        features, backbone_hash = build_features(config, None, None)
        check_same_weights(features.weights, record.get("weights", {}))
    ends = [int(line["classes_seen"]) for line in records]
    names = [str(name) for name in record["class_names"]][: ends[-1]]
    parameters = record.get("method_as_run", {}).get("parameters", {})
    know = Knowledge(
        columns=tuple(names),
        thresholds=torch.full((len(names),), EVEN),
        lessons=tuple(_lessons(folder, names, ends)),
        taught={
            **to_go_on(end),
            "sizes": [hi - lo for lo, hi in zip([0, *ends], ends, strict=False)],
            "input_shape": list(recorded_shape(folder, record)),
            "ridge": {key: parameters[key] for key in _ridge_options() if key in parameters},
        },
    )
    if is_exact(config):
        know, _ = with_thresholds(know, None)
    return Stored(config=config, precision=None, know=know, backbone_hash=backbone_hash)


def _as_lessons(config: Config, shape: tuple[int, ...], folder: Path) -> Config:
    """The settings of lessons: those of the run, without its data set."""
    given = config.benchmark
    if given.features is None and len(shape) != 3:
        raise RebllError(f"{folder} was trained on inputs of shape {shape}, not on images")
    sizes = {} if given.features is not None else {"image_size": shape[-1]}
    benchmark = {
        name: getattr(given, name)
        for name in (
            *("features", "features_pretrained", "features_aspect", "features_windows"),
            *("features_until", "image_size", "missing"),
        )
    }
    plain = config.to_dict() | {"benchmark": benchmark | sizes, "loggers": []}
    lessons = Config.from_dict(plain)
    return replace(lessons, training=replace(lessons.training, tuning="off", num_workers=0))


def _lessons(folder: Path, names: list[str], ends: list[int]) -> list[Lesson]:
    starts = [0, *ends[:-1]]
    return [
        Lesson(
            number=number,
            source=f"experience {number}{of_run(folder)}",
            taught_at="",
            pictures=(),
            keys=(),
            new_classes=tuple(names[lo:hi]),
            known_classes=(),
        )
        for number, (lo, hi) in enumerate(zip(starts, ends, strict=True))
    ]


def _ridge_options() -> list[str]:
    parameters: Any = inspect.signature(RidgeLearner).parameters
    return list(parameters)[1:]
