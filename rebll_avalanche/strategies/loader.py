"""Data loading for evaluation."""

from __future__ import annotations

from typing import Any

from avalanche.benchmarks.utils.data_loader import SingleDatasetDataLoader
from torch.utils.data import DataLoader, Sampler


class BatchLoader(SingleDatasetDataLoader):
    """Avalanche's evaluation loader, reading whole batches.

    Avalanche's own wraps the data set in torch's ``ConcatDataset``, which reads sample by sample.
    """

    def _make_pytorch_loader(
        self, datasets: Any, batch_sampler: Sampler[list[int]]
    ) -> DataLoader[Any]:
        done_by_sampler = ("batch_size", "shuffle", "sampler", "drop_last")
        options = {k: v for k, v in self.loader_kwargs.items() if k not in done_by_sampler}
        return DataLoader(datasets[0], batch_sampler=batch_sampler, **options)


def in_batches(loader: Any) -> Any:
    """A loader with the same batches as ``loader``, each read in one call if it is one of Avalanche's."""
    if type(loader) is not SingleDatasetDataLoader:
        return loader
    return BatchLoader(loader.datasets[0], loader.batch_sizes[0], **loader.loader_kwargs)
