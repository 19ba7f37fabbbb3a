"""Samples of one experience, and an Avalanche data set that reads whole batches of them."""

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
from rebll_avalanche.benchmarks.targets import LabelView
from rebll_avalanche.benchmarks.transforms import only_unit_range, unit_batch


class Stacked(Sequence[tuple[Tensor, Tensor]]):
    """Samples of a batch whose inputs and targets are already stacked."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.columns = [inputs, targets]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: Any) -> Any:
        inputs, targets = self.columns
        return inputs[index], targets[index]


def collate(samples: Sequence[Any]) -> Any:
    """Torch's default collation, skipped for samples that are already stacked."""
    return samples.columns if isinstance(samples, Stacked) else default_collate(samples)  # type: ignore[arg-type]


class Samples(Dataset[tuple[Any, Tensor]]):
    """Some images of a source with their labels in one experience.

    Args:
        source: The inputs.
        indices: Indices into the source, in order.
        targets: ``[samples, classes]``, one row per index.
    """

    # Avalanche's data sets take it over, and their loaders with them.
    collate_fn = staticmethod(collate)

    def __init__(self, source: Source, indices: Tensor, targets: Tensor | LabelView) -> None:
        self.source = source
        # NumPy, because reading single numbers is ten times as fast as in torch.
        self.indices = indices.numpy()
        self.targets = targets

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> tuple[Any, Tensor]:
        return self.source[int(self.indices[index])], self.targets[index]

    def read(self, rows: np.ndarray) -> Iterator[tuple[Any, Tensor]]:
        """Read many samples one after the other, with one image in memory at a time."""
        inputs = (self.source[index] for index in self.indices[rows].tolist())
        return zip(inputs, self.targets[torch.from_numpy(rows)].unbind(), strict=True)

    def stacked(self, rows: np.ndarray, steps: Sequence[Any]) -> Stacked | None:
        """Samples as one batch, if inputs are in one array and transforms only convert to tensors.

        Args:
            rows: Indices of the samples.
            steps: Transforms of the inputs.
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
    """An Avalanche data set from which torch's loaders can read whole batches.

    Avalanche's own resolves its nested subsets and transforms for every sample, which takes longer than
    reading a feature vector. Here this is done once per batch; the samples and their order are the same,
    so random transforms draw the same numbers.
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
            if len(getattr(layer, "_datasets", ())) != 1:  # concatenated or foreign data sets
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
