"""Checks of networks, also user-defined ones, before training."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from avalanche.models import DynamicModule
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.labels import check_criterion, label_matrix
from rebll_avalanche.plugins.criterion import plain_criterion
from rebll_avalanche.protocols import Strategy

Part = TypeVar("Part")


def check_learnable(strategy: Strategy) -> None:
    """Refuse a network or a criterion that cannot learn the labels of the experience.

    Every plugin calls it when an experience begins, since it does not know the others.

    Raises:
        ValueError: Naming what does not fit, and what would.
    """
    check_width(strategy)
    outputs = getattr(strategy.model, "num_classes", None)
    check_criterion(plain_criterion(strategy), strategy.experience.dataset, outputs)


class CheckNetworkPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Checks the network for strategies and plugins of Avalanche, which do not."""

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Refuse a network that cannot learn the experience."""
        check_learnable(strategy)


def part_of(model: Any, name: str, kind: type[Part], purpose: str, way_out: str) -> Part:
    """The head or the backbone of a network, for a method that needs one of a certain kind.

    Raises:
        ValueError: When it is of another kind, with the purpose and the way out.
    """
    part = getattr(model, name, None)
    if not isinstance(part, kind):
        raise ValueError(
            f"{purpose}, but the model's {name} is {type(part).__name__}; use {way_out}"
        )
    return part


def check_solvable(model: Any, purpose: str, instead: str = "") -> None:
    """Refuse a network whose head cannot be solved in closed form.

    Args:
        model: The network.
        purpose: What needs the head, for the message.
        instead: A further way out, for the message.

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
            f"{purpose} needs a growing linear head, but {type(model).__name__} with the head "
            f"{type(head).__name__} lacks {', '.join(lacks)}; make the network with build_model(...) and "
            "head='linear', 'expanded' or 'random', or wrap yours in "
            f"MultiLabelModel(backbone, GrowingLinear(features)){instead}"
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
