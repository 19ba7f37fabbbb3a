"""Multi-label targets as Avalanche's data sets carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from avalanche.benchmarks.utils.data_attribute import DataAttribute
from torch import Tensor

from rebll_avalanche.labels import UNKNOWN


class LabelView:
    """The labels of some images, annotated for some classes, in a matrix that experiences share.

    Rows are copied when they are asked for: a copy per experience would need memory in proportion to
    experiences x images x classes.

    Args:
        labels: ``[all images, classes]``.
        rows: The images, in order.
        columns: The annotated classes; all others are unknown.
        unknown: What stands for an unknown label.
    """

    ndim = 2

    def __init__(
        self, labels: Tensor, rows: Tensor, columns: Sequence[int], unknown: float = UNKNOWN
    ) -> None:
        self._labels = labels
        self._rows, self._row_numbers = rows, rows.numpy()
        self._annotated = torch.zeros(labels.shape[1], dtype=torch.bool)
        self._annotated[list(columns)] = True
        self._unknown = unknown

    @property
    def shape(self) -> tuple[int, int]:
        """Images and classes."""
        return len(self._rows), self._labels.shape[1]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Tensor:
        """Rows by number, slice or tensor."""
        # One row by a plain number: torch would fetch it from a tensor of one value.
        single = isinstance(index, int)
        rows = int(self._row_numbers[index]) if single else self._rows[index]
        found = self._labels[rows].float()
        return found.where(self._annotated & ~found.isnan(), self._unknown)


class MultiLabelTargets(DataAttribute):
    """The ``targets`` of a data set: one row of labels per sample, NaN where not annotated.

    Avalanche's own attribute counts distinct values; here a "value" is a class, and a sample
    belongs to each class that it is positive for. Subsets and concatenations keep the type.

    Args:
        data: ``[samples, classes]``: 1 present, 0 absent, NaN not annotated.
        name: The attribute's name in data sets.
    """

    def __init__(self, data: Tensor | LabelView, name: str = "targets") -> None:
        if data.ndim != 2:
            raise ValueError(f"expected [samples, classes], got targets of {tuple(data.shape)}")
        super().__init__(data, name, use_in_getitem=False)
        self._count: dict[int, int] | None = None
        self._val_to_idx: dict[int, list[int]] | None = None

    def _normalize_sequence(self, seq: Tensor | LabelView) -> Tensor | LabelView:
        # Avalanche converts tensors to nested lists here, which is slow and not hashable either.
        return seq

    @property
    def data(self) -> Tensor:
        """The labels as one tensor."""
        data: Tensor = self._data[:]
        return data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, item: Any) -> Tensor:
        """The labels of one sample, or of several."""
        labels: Tensor = self._data[item]
        return labels

    @property
    def count(self) -> dict[int, int]:
        """How many samples are positive for each class that has any."""
        if self._count is None:
            positives = (self.data == 1).sum(dim=0)
            present = positives.nonzero().flatten().tolist()
            self._count = {column: int(positives[column]) for column in present}
        return self._count

    @property
    def uniques(self) -> set[int]:
        """The classes with at least one positive sample."""
        return set(self.count)

    @property
    def val_to_idx(self) -> dict[int, list[int]]:
        """The positions of the positive samples of each class that has any."""
        if self._val_to_idx is None:
            data = self.data
            self._val_to_idx = {
                column: (data[:, column] == 1).nonzero().flatten().tolist() for column in self.count
            }
        return self._val_to_idx

    def subset(self, indices: Sequence[int]) -> MultiLabelTargets:
        """The labels of some samples."""
        rows = torch.from_numpy(np.fromiter(indices, dtype=np.int64, count=len(indices)))
        return MultiLabelTargets(self._data[rows], self.name)

    def concat(self, other: Any) -> MultiLabelTargets:
        """These labels followed by others of the same name."""
        if self.name != other.name:
            raise ValueError(f"cannot join the attributes {self.name!r} and {other.name!r}")
        return MultiLabelTargets(torch.cat([self.data, other.data]), self.name)
