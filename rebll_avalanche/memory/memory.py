"""Replay memory: references to images, their labels, and the source of each label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from rebll_avalanche.arguments import check_number
from rebll_avalanche.distributed.random_numbers import glimpse, own_numbers
from rebll_avalanche.distributed.ranks import active, joined, share_of
from rebll_avalanche.labels import UNKNOWN, annotated, label_matrix
from rebll_avalanche.memory.sampling import SamplingPolicy, build_policy, chosen_rows
from rebll_avalanche.protocols import Experience, Strategy
from rebll_avalanche.stateful import Stateful

Predict = Callable[[Tensor], Tensor]
# From probabilities [images, classes] to labels.
Decide = Callable[[Tensor], Tensor]


class Provenance(IntEnum):
    """Source of a label of a memory image."""

    UNKNOWN = 0
    GROUND_TRUTH = 1
    PREVIOUS_MODEL = 2
    CURRENT_MODEL = 3


class Memory(Stateful):
    """A bounded set of images from the stream, as references ``(experience, index)``.

    Images are read from the experience's data set when needed: with its training transforms for
    replay, with its evaluation transforms for relabelling. If an experience has ``keep_decoded``, it is
    called with the images that will be read repeatedly.

    Args:
        mem_size: Maximum number of images.
        policy: Which images stay: a sampling policy, or its name.

    >>> from rebll_avalanche import multilabel_benchmark
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> benchmark = multilabel_benchmark((x, y), (x, y), "B2-C2")
    >>> memory = Memory(mem_size=3)
    >>> entered = memory.update(benchmark.train_stream[0])
    >>> images, labels = memory.draw(batch_size=2)
    >>> len(memory), images.shape, labels.shape
    (3, torch.Size([2, 4]), torch.Size([2, 4]))
    """

    stored = ("experience", "index", "labels", "provenance", "policy")

    def __init__(self, mem_size: int, policy: str | SamplingPolicy = "reservoir") -> None:
        check_number("mem_size", mem_size, 0, whole=True)
        self.mem_size = mem_size
        self.policy = build_policy(policy)
        self.experience = torch.empty(0, dtype=torch.long)
        self.index = torch.empty(0, dtype=torch.long)
        self.labels = torch.empty(0, 0)
        self.provenance = torch.empty(0, 0, dtype=torch.uint8)
        self._views: dict[int, tuple[Any, Any]] = {}  # for training, for evaluation
        self._truth = torch.empty(0, 0)  # hidden labels of these images; NaN where there are none
        self._keep: dict[int, Callable[[Tensor], None]] = {}

    def __len__(self) -> int:
        """Number of images in memory."""
        return len(self.index)

    def bind(self, experience: Experience) -> None:
        """Add columns for new classes; after a restart, find the images again through their stream."""
        self.widen(label_matrix(experience.dataset).shape[1])
        for number in set(self.experience.tolist()) - set(self._views):
            earlier = experience.origin_stream[number]
            self._remember(earlier)
            mine = self.experience == number
            self._truth[mine] = _hidden_labels(earlier, self.index[mine], self.labels[mine])
        self._keep_decoded()

    def _remember(self, experience: Experience) -> None:
        number = int(experience.current_experience)
        self._views[number] = (experience.dataset.train(), experience.dataset.eval())
        keep = getattr(experience, "keep_decoded", None)
        if keep is not None:
            self._keep[number] = keep

    def _keep_decoded(self) -> None:
        for number, keep in self._keep.items():
            keep(self.index[self.experience == number])

    def update(self, experience: Experience, learner: Strategy | None = None) -> Tensor:
        """Let the policy choose among the stored images and those of ``experience``.

        An image already in memory, because its experience is trained again, is not added a second
        time. The policy sees labels as they are in memory, including those filled in by a model.

        Args:
            experience: The experience whose images arrive.
            learner: The strategy that has just learned it, for policies that need features.

        Returns:
            For each image now in memory, its row among the stored and then the arriving images.
        """
        self._remember(experience)
        number = int(experience.current_experience)
        everything = label_matrix(experience.dataset)
        here = torch.zeros(len(everything), dtype=torch.bool)
        here[self.index[self.experience == number]] = True
        index = (~here).nonzero().flatten()
        arriving = everything[index]
        if len(self) == 0:
            self.labels = self.labels.new_empty(0, arriving.shape[1])
            self.provenance = self.provenance.new_empty(0, arriving.shape[1])
            self._truth = self.labels
        chosen = chosen_rows(self.policy, self.labels, arriving, self.mem_size, learner, index)
        given = annotated(arriving).to(torch.uint8) * int(Provenance.GROUND_TRUTH)
        self.experience = torch.cat([self.experience, torch.full_like(index, number)])[chosen]
        self.index = torch.cat([self.index, index])[chosen]
        self.labels = torch.cat([self.labels, arriving])[chosen]
        self.provenance = torch.cat([self.provenance, given])[chosen]
        hidden = _hidden_labels(experience, index, arriving)
        self._truth = torch.cat([self._truth, hidden])[chosen]
        self._keep_decoded()  # before experiences without images in memory are dropped
        remaining = set(self.experience.tolist())
        self._keep = {k: v for k, v in self._keep.items() if k in remaining}
        self._views = {k: v for k, v in self._views.items() if k in remaining}
        return chosen

    def images(self, rows: Tensor, *, augment: bool) -> Tensor:
        """Read images, with training or with evaluation transforms."""
        view = 0 if augment else 1
        pairs = zip(self.experience[rows].tolist(), self.index[rows].tolist(), strict=True)
        return torch.stack([torch.as_tensor(self._views[e][view][i][0]) for e, i in pairs])

    def draw(self, batch_size: int) -> tuple[Tensor, Tensor]:
        """A random batch without replacement: augmented images and their labels.

        Ranks of a job draw the same batch and get a part of it each, which may be empty.
        """
        rows = _random_rows(len(self), batch_size)
        if not active():
            return self.images(rows, augment=True), self.labels[rows]
        seed, mine = glimpse(), rows[share_of(len(rows))]
        images = []
        for row in mine if len(mine) else rows[:1]:
            with own_numbers(seed, int(row)):
                images.append(self.images(row.view(1), augment=True))
        return torch.cat(images)[: len(mine)], self.labels[mine]

    def relabel(
        self,
        rows: Tensor,
        columns: slice,
        predict: Predict,
        *,
        decide: Decide,
        provenance: Provenance,
        batch_size: int = 64,
    ) -> None:
        """Fill in unknown labels from a model's predictions; known labels are kept.

        Args:
            rows: The images.
            columns: The classes.
            predict: Maps images to probabilities of all classes of the model.
            decide: Maps the probabilities of all images with missing labels to labels.
            provenance: Recorded for every filled label.
            batch_size: Images per forward pass.
        """
        gaps = ~annotated(self.labels[rows, columns])
        rows = rows[gaps.any(dim=1)]
        if not len(rows):  # split would return one empty part
            return
        mine = rows[share_of(len(rows))]
        asked = mine if len(mine) else rows[:1]  # a rank without a part has to answer all the same
        parts = (self.images(part, augment=False) for part in asked.split(batch_size))
        found = torch.cat([predict(part)[:, columns].cpu() for part in parts])[: len(mine)]
        said = decide(joined(found))
        # Labels that the rule leaves undecided stay unknown.
        unknown = ~annotated(self.labels[rows, columns]) & annotated(said)
        self.labels[rows, columns] = torch.where(unknown, said, self.labels[rows, columns])
        self.provenance[rows, columns] = torch.where(
            unknown,
            torch.tensor(int(provenance), dtype=torch.uint8),
            self.provenance[rows, columns],
        )

    def label_matrix(self) -> tuple[Tensor, Tensor]:
        """Labels and provenance, rows sorted by experience: the paper's label block matrix."""
        order = self.experience.argsort(stable=True)
        return self.labels[order], self.provenance[order]

    def provenance_shares(self) -> dict[str, float]:
        """Share of all labels in memory per source."""
        total = max(self.provenance.numel(), 1)
        return {who.name.lower(): int((self.provenance == who).sum()) / total for who in Provenance}

    def relabelling_score(self) -> dict[str, float]:
        """Quality of the filled labels, where the benchmark has the hidden ground truth.

        Returns:
            ``accuracy``, ``precision`` and ``recall`` of the filled labels and their ``count``;
            empty if there is nothing to compare.
        """
        filled = self._filled()
        said, true = self.labels[filled] > 0.5, self._truth[filled] > 0.5
        if not len(said):
            return {}
        hits = int((said & true).sum())
        return {
            "accuracy": float((said == true).float().mean()),
            "precision": hits / max(int(said.sum()), 1),
            "recall": hits / max(int(true.sum()), 1),
            "count": float(len(said)),
        }

    def block_scores(self, class_ends: Sequence[int]) -> list[dict[str, float]]:
        """Accuracy of the filled labels in each block of the label matrix.

        Args:
            class_ends: End of each experience's class range.

        Returns:
            For every block with filled labels: the experience of its ``images``, the experience of
            its ``classes``, the share of ``right`` labels and the ``count`` of filled labels.
        """
        filled = self._filled()
        right = filled & ((self.labels > 0.5) == (self._truth > 0.5))
        present, place = self.experience.unique(return_inverse=True)

        def per_block(entries: Tensor) -> Tensor:
            """Sums over the columns of each experience, then over its rows."""
            sums = pad(entries.long().cumsum(dim=1), (1, 0))[:, [0, *class_ends]].diff(dim=1)
            return torch.zeros(len(present), sums.shape[1], dtype=torch.long).index_add(
                0, place, sums
            )

        counts, hits = per_block(filled), per_block(right)
        return [
            {
                "images": int(present[row]),
                "classes": column,
                "right": int(hits[row, column]) / int(counts[row, column]),
                "count": int(counts[row, column]),
            }
            for row, column in counts.nonzero().tolist()
        ]

    def _filled(self) -> Tensor:
        """Mask of filled labels with known ground truth."""
        return (self.provenance >= Provenance.PREVIOUS_MODEL) & annotated(self._truth)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; data sets are found again by :meth:`bind`."""
        super().load_state_dict(state)
        self._views.clear()
        self._truth = torch.full_like(self.labels, UNKNOWN)
        self._keep.clear()

    def rows_of(self, experience: int) -> tuple[Tensor, Tensor]:
        """Rows sampled from an experience, and all others."""
        mine = self.experience == experience
        return mine.nonzero().flatten(), (~mine).nonzero().flatten()

    def widen(self, num_classes: int) -> None:
        """Add a column of unknown labels for each new class."""
        if len(self):
            more = num_classes - self.labels.shape[1]
            self.labels = pad(self.labels, (0, more), value=UNKNOWN)
            self._truth = pad(self._truth, (0, more), value=UNKNOWN)
            self.provenance = pad(self.provenance, (0, more), value=int(Provenance.UNKNOWN))


def _random_rows(count: int, wanted: int) -> Tensor:
    """Different rows in random order."""
    if count < 100 * wanted:
        return torch.randperm(count)[:wanted]
    # A permutation of a large memory would take longer than the rest of a small network's batch.
    rows = torch.empty(0, dtype=torch.long)
    while len(rows) < wanted:
        rows = torch.randint(count, (2 * wanted,)).unique()
    return rows[torch.randperm(len(rows))[:wanted]]


def _hidden_labels(experience: Experience, index: Tensor, alike: Tensor) -> Tensor:
    """The ground truth of some images of an experience, as ``alike``; NaN if it has none.

    Only these rows are kept: an experience gathers those of all its images for whoever asks.
    """
    truth = getattr(experience, "full_targets", None)
    return torch.full_like(alike, UNKNOWN) if truth is None else truth[index].to(alike)
