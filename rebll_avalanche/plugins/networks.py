"""Checks of user-defined networks before training."""

from __future__ import annotations

from typing import Any

import torch
from avalanche.models import DynamicModule

from rebll_avalanche.labels import label_matrix
from rebll_avalanche.protocols import Strategy


def check_solvable(model: Any) -> None:
    """Refuse a network whose head a closed-form teacher cannot solve.

    Raises:
        ValueError: Naming what the network or its head lacks.
    """
    head = getattr(model, "head", None)
    lacks = [name for name in ("features", "has_windows") if not hasattr(model, name)]
    for name in ("in_features", "weight", "bias", "grow"):
        if getattr(head, name, None) is None:
            lacks.append(f"head.{name}")
    if lacks:
        raise ValueError(
            f"a closed-form teacher needs a growing linear head, but {type(model).__name__} "
            f"with the head {type(head).__name__} lacks {', '.join(lacks)}; make the network with "
            "build_model(...), wrap yours in MultiLabelModel(backbone, GrowingLinear(features)), or use "
            "preset='paper' with teacher='previous'"
        )


def check_width(strategy: Strategy) -> None:
    """Refuse a network that has fewer outputs than the stream has classes and cannot grow.

    Raises:
        ValueError: Naming both numbers.
    """
    model, dataset = strategy.model, strategy.experience.dataset
    if any(isinstance(module, DynamicModule) for module in model.modules()):
        return
    was_training = model.training
    model.eval()
    with torch.no_grad():
        width = model(dataset.eval()[0][0][None].to(strategy.device)).shape[1]
    model.train(was_training)
    classes = label_matrix(dataset).shape[1]
    if width < classes:
        raise ValueError(
            f"{type(model).__name__} has {width} outputs and does not grow, but the stream has "
            f"{classes} classes; give it {classes} outputs, in order of learning, or a growing head such "
            "as GrowingLinear"
        )
