"""A tiny partially labelled stream for the metrics, built with Avalanche's own generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

FEATURES = 6
RANGES = ((0, 2), (2, 3), (3, 5))


@pytest.fixture
def make_stream() -> Callable[..., Any]:
    """Three experiences that add 2 + 1 + 2 classes; see ``build``."""
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.utils import make_avalanche_dataset
    from avalanche.benchmarks.utils.data_attribute import DataAttribute
    from torch.utils.data import TensorDataset

    def data_set(samples: int, columns: slice, with_targets: bool, seed: int) -> Any:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(samples, FEATURES, generator=generator)
        truth = (x[:, :5] + 0.5 * torch.randn(samples, 5, generator=generator) > 0.4).float()
        y = torch.full_like(truth, float("nan"))
        y[:, columns] = truth[:, columns]
        attributes = [DataAttribute(y, "targets")] if with_targets else []
        return make_avalanche_dataset(TensorDataset(x, y), data_attributes=attributes)

    def build(samples: int = 24, with_targets: bool = True) -> Any:
        """Train on the labels of the experience alone, test on those of all classes so far."""
        train = [
            data_set(samples, slice(lo, hi), with_targets, seed)
            for seed, (lo, hi) in enumerate(RANGES)
        ]
        test = [
            data_set(samples, slice(0, hi), with_targets, 10 + seed)
            for seed, (_, hi) in enumerate(RANGES)
        ]
        benchmark = benchmark_from_datasets(train=train, test=test)
        for stream in (benchmark.train_stream, benchmark.test_stream):
            for experience, (lo, hi) in zip(stream, RANGES, strict=True):
                experience.classes_in_this_experience = set(range(lo, hi))
                experience.previous_classes = set(range(lo))
                experience.classes_seen_so_far = set(range(hi))
                experience.future_classes = set(range(hi, 5))
        return benchmark

    return build
