"""Samples of one experience, and the Avalanche data set around them that reads whole batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from avalanche.benchmarks.utils.data import AvalancheDataset
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from rebll_avalanche.benchmarks.cache import ImageCache
from rebll_avalanche.benchmarks.images import ImageArray, Rows, Source
from rebll_avalanche.benchmarks.transforms import only_unit_range, unit_batch


class Stacked(Sequence[tuple[Tensor, Tensor]]):
    """The samples of a batch whose inputs and targets were taken from their arrays at once."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.columns = [inputs, targets]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: Any) -> Any:
        inputs, targets = self.columns
        return inputs[index], targets[index]


def collate(samples: Sequence[Any]) -> Any:
    """A batch as torch makes it of samples, without stacking what is stacked already."""
    return samples.columns if isinstance(samples, Stacked) else default_collate(samples)  # type: ignore[arg-type]


class Samples(Dataset[tuple[Any, Tensor]]):
    """Some images of a source, each with the labels that one experience gives it.

    Args:
        source: Where inputs come from.
        indices: Which of them, in order.
        targets: ``[samples, classes]``, one row per index.
    """

    collate_fn = staticmethod(
        collate
    )  # Avalanche's data sets take it over, and their loaders with them

    def __init__(self, source: Source, indices: Tensor, targets: Tensor) -> None:
        self.source = source
        # NumPy, which gives out single numbers ten times as fast as torch.
        self.indices = indices.numpy()
        self.targets = targets

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> tuple[Any, Tensor]:
        return self.source[int(self.indices[index])], self.targets[index]

    def read(self, rows: np.ndarray) -> Iterator[tuple[Any, Tensor]]:
        """The same for many samples, one after the other: no more than one picture at a time."""
        inputs = (self.source[index] for index in self.indices[rows].tolist())
        return zip(inputs, self.targets[torch.from_numpy(rows)].unbind(), strict=True)

    def stacked(self, rows: np.ndarray, steps: Sequence[Any]) -> Stacked | None:
        """Samples as one batch, where inputs lie in one array and need little to become tensors.

        Args:
            rows: Which samples.
            steps: What is to be done to each input.
        """
        indices, source = self.indices[rows], self.source
        if isinstance(source, Rows) and not steps:
            inputs = source.data[torch.from_numpy(indices)]
        elif isinstance(source, ImageArray | ImageCache) and only_unit_range(
            steps, source.array.shape[1:3]
        ):
            if isinstance(source, ImageCache):
                source.check(indices.tolist())
            inputs = unit_batch(source.array, indices.tolist())
        else:
            return None
        return Stacked(inputs, self.targets[torch.from_numpy(rows)])


class MultiLabelDataset(AvalancheDataset):
    """An Avalanche data set that torch's loaders may ask for a batch at a time.

    Avalanche's own is asked sample by sample and looks through its layers of subsets and transforms each
    time, which takes longer than to read a feature vector. Here that is done once per batch; samples are
    the same, and in the same order, so that random transforms draw the same numbers.
    """

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """Samples by index, as ``[self[index] for index in indices]`` gives them."""
        if any(attribute.use_in_getitem for attribute in self._data_attributes.values()):
            return [self[index] for index in indices]
        layer: Any = self._flat_data
        group = layer._transform_groups.current_group
        rows = np.asarray(indices)
        transforms: list[Any] = []  # of the innermost layer first
        while not isinstance(layer, Samples):
            if len(getattr(layer, "_datasets", ())) != 1:  # several together, or somebody else's
                return [self[index] for index in indices]
            if layer._indices is not None:
                rows = np.array([layer._indices[row] for row in rows])
            groups = (layer._frozen_transform_groups, layer._transform_groups)
            transforms = [each.transform_groups[group] for each in groups] + transforms
            layer = layer._datasets[0]
        active = [transform for transform in transforms if transform is not None]
        if not any(transform.flat_transforms(1) for transform in active):  # labels stay as they are
            steps = [step for transform in active for step in transform.flat_transforms(0)]
            if batch := layer.stacked(rows, steps):
                return batch
        samples: list[Any] = []
        for sample in layer.read(rows):
            for transform in active:
                sample = transform(*sample)
            samples.append(sample)
        return samples
