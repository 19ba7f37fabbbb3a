"""A stream small enough to be learned while the site is built: what partial labels do to a classifier."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche import build_model, build_optimizer, get_method, multilabel_benchmark
from rebll_avalanche import multilabel_evaluator as evaluator

CLASSES, FEATURES, SCENARIO = 8, 16, "B2-C2"
METHODS = {"joint": "all labels", "fine-tuning": "fine-tuning", "rebll": "RebLL"}


@dataclass(frozen=True)
class Learned:
    """What the methods call after the last experience.

    Attributes:
        truth: Share of test images that have each class.
        called: The same as a method sees it, at a threshold of 0.5.
        train: The labels of each training experience, NaN where nobody gave one.
        rebll: The strategy, with its memory.
    """

    truth: Tensor
    called: dict[str, Tensor]
    train: list[Tensor]
    rebll: Any


def vectors(images: int, seed: int) -> tuple[Tensor, Tensor]:
    """Vectors with one to three classes each: the sum of what stands for a class, and noise."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(images, CLASSES, generator=generator).argsort(dim=1)
    labels = (order < torch.randint(1, 4, (images, 1), generator=generator)).float()
    stands_for = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(1))
    return labels @ stands_for + 1.5 * torch.randn(images, FEATURES, generator=generator), labels


@cache
def learned() -> Learned:
    """Three methods learn the stream; seconds."""
    train, test = vectors(800, seed=0), vectors(400, seed=9)
    called, strategies, streams = {}, {}, {}
    for name in METHODS:
        torch.manual_seed(0)
        streams[name] = multilabel_benchmark(train, test, "joint" if name == "joint" else SCENARIO)
        model = build_model("vector", in_features=FEATURES)
        strategies[name] = get_method(name).build(
            model=model,
            optimizer=build_optimizer(model, lr=0.02),
            train_mb_size=32,
            train_epochs=10,
            evaluator=evaluator(loggers=[]),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Avalanche's own, of its deprecated names
            for experience in streams[name].train_stream:
                strategies[name].train(experience)
        with torch.no_grad():
            called[name] = (model.eval()(test[0]).sigmoid() > 0.5).float().mean(dim=0)
    labels = [experience.dataset.targets.data for experience in streams["rebll"].train_stream]
    return Learned(test[1].mean(dim=0), called, labels, strategies["rebll"])
