"""Records of single images besides the sums, for correcting labels and forgetting images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

NOT_GIVEN = -1


@dataclass
class GivenLabels:
    """The labels of one experience, as given.

    Attributes:
        number: Number of the experience.
        rows: Rows of its images in the records.
        labels: ``[images, classes]``, int8: 1, 0, or -1 where not annotated.
    """

    number: int
    rows: Tensor
    labels: Tensor


class ImageRecords:
    """Images by fingerprint, in order of first appearance, with their given labels.

    An image takes eight bytes, and per class one byte for its label in each experience and two for the guess
    of a missing label. Guesses are float16 and rounded before they are added to the sums, so that the
    record is exactly what was added.

    Args:
        num_features: Length of the vectors if they are kept too (float32), else 0.
    """

    def __init__(self, num_features: int = 0) -> None:
        self.index: dict[int, int] = {}
        self.labels = torch.zeros(0, 0, dtype=torch.int8)
        self.guesses = torch.zeros(0, 0, dtype=torch.float16)
        self.vectors = torch.zeros(0, num_features)
        self.given: list[GivenLabels] = []

    def __len__(self) -> int:
        """Number of images."""
        return len(self.index)

    @property
    def keeps_vectors(self) -> bool:
        """Whether images can be forgotten without being given again."""
        return self.vectors.shape[1] > 0

    def rows(self, images: Iterable[int]) -> Tensor:
        """Rows of images; -1 for unknown ones."""
        return torch.tensor([self.index.get(image, -1) for image in images], dtype=torch.int64)

    def known_rows(self, images: Sequence[int]) -> Tensor:
        """Rows of images that must be known.

        Raises:
            ValueError: When an image is unknown, or is listed twice.
        """
        rows = self.rows(images)
        strangers = int((rows < 0).sum())
        if strangers:
            raise ValueError(f"{strangers} of {len(rows)} images have never been learned")
        if len(set(rows.tolist())) < len(rows):
            raise ValueError("an image is listed twice; list each image once")
        return rows

    def grow(self, num_classes: int) -> None:
        """Add columns for more classes."""
        self.labels = widened(self.labels, num_classes)
        self.guesses = pad(self.guesses, (0, self.labels.shape[1] - self.guesses.shape[1]))

    def add(
        self,
        number: int,
        images: Sequence[int],
        labels: Tensor,
        guesses: Tensor,
        vectors: Tensor,
    ) -> None:
        """Add the labels of an experience.

        Args:
            number: Number of the experience.
            images: Fingerprints, each once.
            labels: int8, as in a :class:`GivenLabels`.
            guesses: New guesses of the images' missing labels.
            vectors: Vectors, stored for new images if vectors are kept.
        """
        self.grow(labels.shape[1])
        first: list[int] = []
        for place, image in enumerate(images):
            if image not in self.index:
                self.index[image] = len(self.index)
                first.append(place)
        new = len(first)
        if self.keeps_vectors:
            self.vectors = torch.cat([self.vectors, vectors[first].float()])
        self.labels = pad(self.labels, (0, 0, 0, new), value=NOT_GIVEN)
        self.guesses = pad(self.guesses, (0, 0, 0, new))
        rows = self.rows(images)
        self.given.append(GivenLabels(number, rows, labels))
        self._apply(self.given[-1])
        self.guesses[rows] = guesses

    def copy_to(self, other: ImageRecords, first_number: int) -> None:
        """Add these images, all unknown to the other, with experiences numbered from ``first_number``."""
        start = len(other)
        for image, row in self.index.items():
            other.index[image] = start + row
        classes = max(self.labels.shape[1], other.labels.shape[1])
        other.grow(classes)
        wide = pad(self.guesses, (0, classes - self.guesses.shape[1]))
        other.guesses = torch.cat([other.guesses, wide])
        other.vectors = torch.cat([other.vectors, self.vectors])
        for entry in self.given:
            number = entry.number + first_number if entry.number != NOT_GIVEN else NOT_GIVEN
            other.given.append(GivenLabels(number, entry.rows + start, entry.labels.clone()))
        other._refresh()

    def correct(self, rows: Tensor, labels: Tensor) -> None:
        """Change labels in every experience that gave them, and add those not given before."""
        self.grow(labels.shape[1])
        missing = labels.clone()
        place = torch.full((len(self),), -1)
        place[rows] = torch.arange(len(rows))
        for entry in self.given:
            entry.labels = widened(entry.labels, labels.shape[1])
            at = place[entry.rows]
            concerned = at >= 0
            given, now = labels[at[concerned]], entry.labels[concerned]
            both = (given != NOT_GIVEN) & (now != NOT_GIVEN)
            entry.labels[concerned] = torch.where(both, given, now)
            missing[at[concerned]] = missing[at[concerned]].masked_fill(both, NOT_GIVEN)
        later = (missing != NOT_GIVEN).any(1)
        if bool(later.any()):
            self.given.append(GivenLabels(NOT_GIVEN, rows[later], missing[later]))
        self._refresh()
        self.guesses[rows] = self.guesses[rows].masked_fill(self.labels[rows] != NOT_GIVEN, 0)

    def forget_classes(self, columns: Sequence[int]) -> None:
        """Drop all labels and guesses of some classes."""
        self.guesses[:, list(columns)] = 0
        for entry in self.given:
            there = [column for column in columns if column < entry.labels.shape[1]]
            entry.labels[:, there] = NOT_GIVEN
        self._refresh()

    def forget_experience(self, number: int) -> None:
        """Drop the labels of an experience; its images stay until they are forgotten."""
        self.given = [entry for entry in self.given if entry.number != number]
        self._refresh()

    def forget(self, rows: Tensor) -> None:
        """Drop images."""
        stays = torch.ones(len(self), dtype=torch.bool)
        stays[rows] = False
        moved = torch.where(stays, stays.cumsum(0) - 1, -1)
        self.index = {
            image: int(moved[row]) for image, row in self.index.items() if bool(stays[row])
        }
        self.guesses = self.guesses[stays]
        self.labels = self.labels[stays]
        if self.keeps_vectors:
            self.vectors = self.vectors[stays]
        for entry in self.given:
            left = stays[entry.rows]
            entry.rows, entry.labels = moved[entry.rows[left]], entry.labels[left]
        self.given = [entry for entry in self.given if entry.number != NOT_GIVEN or len(entry.rows)]

    def of_experience(self, number: int) -> GivenLabels:
        """The labels of one experience.

        Raises:
            ValueError: When it was never learned, or has been forgotten.
        """
        for entry in self.given:
            if entry.number == number:
                return entry
        known = ", ".join(str(entry.number) for entry in self.given if entry.number >= 0)
        raise ValueError(f"experience {number} is not among those learned: {known or 'none'}")

    @property
    def num_bytes(self) -> int:
        """Size of the state."""
        tensors = [self.guesses, self.vectors]
        tensors += [part for entry in self.given for part in (entry.rows, entry.labels)]
        return 8 * len(self) + sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def state_dict(self) -> dict[str, Any]:
        """Everything that cannot be derived from the rest."""
        return {
            "images": torch.tensor(list(self.index), dtype=torch.int64),
            "guesses": self.guesses,
            "vectors": self.vectors,
            "lessons": [  # the name that saved states have
                {"number": entry.number, "rows": entry.rows, "labels": entry.labels}
                for entry in self.given
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.index = {image: row for row, image in enumerate(state["images"].tolist())}
        self.guesses = state["guesses"].clone()
        self.vectors = state["vectors"].clone()
        self.given = [
            GivenLabels(int(entry["number"]), entry["rows"].clone(), entry["labels"].clone())
            for entry in state["lessons"]
        ]
        self._refresh()

    def _refresh(self) -> None:
        self.labels = torch.full(self.guesses.shape, NOT_GIVEN, dtype=torch.int8)
        for entry in self.given:
            self._apply(entry)

    def _apply(self, entry: GivenLabels) -> None:
        """Replace labels of earlier experiences by those of a later one."""
        given = widened(entry.labels, self.labels.shape[1])
        now = self.labels[entry.rows]
        self.labels[entry.rows] = torch.where(given != NOT_GIVEN, given, now)


def as_given(labels: Tensor, num_classes: int) -> Tensor:
    """Labels of 1, 0 and NaN as int8, with columns for all classes."""
    given = labels.nan_to_num(float(NOT_GIVEN)).to(torch.int8)
    return widened(given, num_classes)


def widened(labels: Tensor, num_classes: int) -> Tensor:
    """Labels with unannotated columns added for new classes."""
    return pad(labels, (0, max(num_classes - labels.shape[1], 0)), value=NOT_GIVEN)


def fingerprints(images: Tensor) -> list[int]:
    """A 64-bit hash of each image of a batch, from which the image cannot be recovered."""
    digests = (
        hashlib.blake2b(image.contiguous().numpy(), digest_size=8).digest()
        for image in images.cpu()
    )
    return [int.from_bytes(digest, "little", signed=True) for digest in digests]
