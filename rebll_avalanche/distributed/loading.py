"""Split batches between ranks: each reads its part of every batch of a single process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from rebll_avalanche.distributed.random_numbers import glimpse, own_numbers, state_hash
from rebll_avalanche.distributed.ranks import share_of


@dataclass(frozen=True)
class Share:
    """A rank's part of a batch.

    Attributes:
        indices: Its samples.
        example: A sample of the batch: a part may be empty, and still needs a shape.
        seed: Seed of random transforms in this epoch, combined with the sample's index.
    """

    indices: list[int]
    example: int
    seed: int


class Shares:
    """A batch sampler that gives this rank's part of each batch of another one.

    All ranks draw the same order, since their random numbers are the same.
    """

    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Share]:
        seed = glimpse()
        for batch in self.batches:
            yield Share(list(batch[share_of(len(batch))]), batch[0], seed)


class SharedReader:
    """Reads shares of a data set; random transforms are seeded per sample."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._draws = False

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, share: Share) -> Any:
        """The samples of a share."""
        if not share.indices:
            with own_numbers(share.seed, share.example):
                return Nothing(self.dataset[share.example])
        if not self._draws:
            with own_numbers(share.seed):
                before = state_hash()
                samples = self._read(share.indices)
                self._draws = state_hash() != before
            if not self._draws:
                return samples
        return [self._one(index, share.seed) for index in share.indices]

    def _one(self, index: int, seed: int) -> Any:
        with own_numbers(seed, index):
            return self.dataset[index]

    def _read(self, indices: Sequence[int]) -> Any:
        if hasattr(self.dataset, "__getitems__"):
            return self.dataset.__getitems__(indices)
        return [self.dataset[index] for index in indices]


@dataclass(frozen=True)
class Nothing:
    """An empty share, with an example of a sample."""

    example: Any


@dataclass(frozen=True)
class SharedCollate:
    """Wraps a collate function to support empty shares."""

    collate: Callable[[Any], Any]

    def __call__(self, samples: Any) -> Any:
        if isinstance(samples, Nothing):
            return [part[:0] for part in self.collate([samples.example])]
        return self.collate(samples)


def shared(loader: Any) -> DataLoader[Any]:
    """This rank's part of the batches of a loader, of torch or of Avalanche's for one data set.

    Raises:
        ValueError: When a loader mixes several data sets.
    """
    if isinstance(loader, DataLoader) and isinstance(loader.batch_sampler, Shares):
        return loader
    if isinstance(loader, DataLoader) and loader.batch_sampler is not None:
        dataset, batches, collate = loader.dataset, loader.batch_sampler, loader.collate_fn
        workers, pinned, kept = loader.num_workers, loader.pin_memory, loader.persistent_workers
        generator = loader.generator
    elif len(getattr(loader, "datasets", ())) == 1 and not loader.loader_kwargs.get("shuffle"):
        dataset, options = loader.datasets[0], loader.loader_kwargs
        batches = BatchSampler(SequentialSampler(dataset), loader.batch_sizes[0], drop_last=False)
        collate, workers = options["collate_fn"], options.get("num_workers", 0)
        pinned, kept = options.get("pin_memory", False), options.get("persistent_workers", False)
        generator = options.get("generator")
    else:
        raise ValueError(
            f"batches of a {type(loader).__name__} cannot be split between processes; train on a stream "
            "without task labels, or in a single process"
        )
    return DataLoader(
        SharedReader(dataset),  # type: ignore[arg-type]
        batch_sampler=Shares(batches),  # type: ignore[arg-type]
        collate_fn=SharedCollate(collate),
        num_workers=workers,
        pin_memory=pinned,
        persistent_workers=kept,
        generator=generator,
    )
