"""An experience that is being learned: its additions to the sums, and a calibration sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rebll_avalanche.closed_form.records import NOT_GIVEN, ImageRecords, as_given, fingerprints
from rebll_avalanche.closed_form.ridge import LinearScores, Solution
from rebll_avalanche.closed_form.sums import LabelSums, RidgeSums
from rebll_avalanche.labels import grown

if TYPE_CHECKING:
    from rebll_avalanche.closed_form.learner import RidgeLearner

# Enough to fit three coefficients; bounds the memory use of a long experience.
CALIBRATION_IMAGES = 4096
CALIBRATION_WINDOWS = 16384


class PendingExperience:
    """Data of an experience, kept separate until it ends, so that an interrupted one leaves no trace.

    Args:
        learner: The learner before the experience.
        labels: Labels of all images of the experience.
        number: Number of the experience.
        combine: Reduces the scores of an image's places; see :meth:`RidgeLearner.begin`.
    """

    def __init__(
        self,
        learner: RidgeLearner,
        labels: Tensor,
        number: int,
        combine: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.number = number
        self._combine = combine
        self.num_classes = max(labels.shape[1], learner.num_classes)
        self.images = len(labels)
        features = learner.sums.num_features
        self.added = RidgeSums(features, self.num_classes)
        self.guessed = LabelSums(features, self.num_classes)
        positives = labels.nan_to_num(0.0).double().sum(0)
        self.class_counts = grown(learner.class_counts, self.num_classes)
        self.class_counts[: len(positives)] += positives
        self.annotated = torch.zeros(self.num_classes, dtype=torch.float64)
        self.evidence = torch.zeros(2, dtype=torch.float64)
        self._learner = learner
        self._records = learner.records
        self._known_classes = learner.annotated > 0
        self._head: tuple[LinearScores, LinearScores] | None = None
        if self._learner.unknown != "negative" and learner.sums.images > 0:
            self._head = learner.head_so_far()
        # Per batch: fingerprints, labels as given, current guesses, vectors.
        self._noted: list[tuple[list[int], Tensor, Tensor, Tensor]] = []
        self._place: dict[int, tuple[int, int]] = {}
        self._sample: list[tuple[Any, ...]] = []

    def observe(
        self,
        vectors: Tensor,
        labels: Tensor,
        images: Sequence[int] | None = None,
        places: Tensor | None = None,
    ) -> None:
        """Add a batch; see :meth:`RidgeLearner.observe`."""
        if self._records is None:
            self._count(vectors, self._wide(labels), None, places)
            return
        names = fingerprints(vectors) if images is None else list(images)
        # The second occurrence of an image within a batch counts as a repeat.
        first = {name: place for place, name in reversed(list(enumerate(names)))}
        if len(first) == len(names):
            self._count(vectors, self._wide(labels), names, places)
            return
        is_first = [first[name] == place for place, name in enumerate(names)]
        for turn in (True, False):
            rows = [place for place, now in enumerate(is_first) if now == turn]
            self.observe(
                vectors[rows],
                labels[rows],
                [names[row] for row in rows],
                None if places is None else places[rows],
            )

    def _count(
        self, vectors: Tensor, labels: Tensor, names: list[int] | None, places: Tensor | None
    ) -> None:
        given = ~torch.isnan(labels)
        again = torch.zeros(len(labels), dtype=torch.bool)
        guesses = self._guesses(vectors, given)
        after = labels.nan_to_num(0.0)
        if names is not None:
            before, guessed_before, again = self._noted_before(names)
            known_before = before != NOT_GIVEN
            guesses[again] = guessed_before[again].double().masked_fill(given[again], 0.0)
            newly = given & ~(known_before & again[:, None])
            self.annotated += newly.double().sum(0)
            if bool(again.any()):
                old = before[again].clamp(min=0).to(after)
                self.added.relabel(
                    vectors[again], old, torch.where(given[again], after[again], old)
                )
                self.guessed.relabel(vectors[again], guessed_before[again], guesses[again])
            self._note(names, labels, guesses, vectors)
        else:
            self.annotated += given.double().sum(0)
        new = ~again
        weights = self._weights(after[new] + guesses[new].to(after))
        self.added.add(vectors[new], after[new], weights)
        self.guessed.add(vectors[new], guesses[new], weights)
        self._find_repeats(vectors, given, again)
        if self._learner.calibration == "logistic":
            chosen = self._every(0 if places is None else places.shape[1])
            # A copy, so that the rest of the batch can be freed.
            sample = [part[chosen].contiguous() for part in (vectors, labels, guesses, new)]
            of_places = None if places is None else places[chosen].contiguous()
            self._sample.append((*sample, of_places))

    def note(self, records: ImageRecords) -> None:
        """Add single images to the records."""
        names: list[int] = [name for batch in self._noted for name in batch[0]]
        empty = torch.zeros(0, self.num_classes, dtype=torch.int8), torch.zeros(0, self.num_classes)
        labels = torch.cat([empty[0], *(batch[1] for batch in self._noted)])
        guesses = torch.cat([empty[1].half(), *(batch[2] for batch in self._noted)])
        vectors = torch.cat(
            [torch.zeros(0, records.vectors.shape[1]), *(batch[3] for batch in self._noted)]
        )
        last = {name: place for place, name in enumerate(names)}
        if len(last) < len(names):
            rows = list(last.values())
            names, labels, guesses, vectors = list(last), labels[rows], guesses[rows], vectors[rows]
        records.add(self.number, names, labels, guesses, vectors)

    def guess_again(self, scores: LinearScores) -> None:
        """Replace the guesses of the calibration sample, like those of the records."""
        self._sample = [
            (vectors, labels, guessed_again(guesses, vectors, scores), *more)
            for vectors, labels, guesses, *more in self._sample
        ]

    def left_out(self, solution: Solution, guess_share: float) -> tuple[Tensor, Tensor, Tensor]:
        """Leave-one-out scores and labels of the sample.

        Args:
            solution: The head solved from sums that include the experience.
            guess_share: The share with which guesses were counted.

        Returns:
            The scores; the given labels; and the same with 0 for missing labels of images that are not
            repeats, since a repeated image may have been given other labels earlier.
        """
        found, labels, completed = [], [], []
        for vectors, given, guesses, new, places in self._sample:
            counted = given.nan_to_num(0.0)
            if guess_share:
                counted = counted.double() + guess_share * guesses
            left_out = solution.left_out(vectors, counted, places)
            if places is not None and self._combine is not None:
                left_out = self._combine(left_out)
            found.append(left_out)
            labels.append(given)
            completed.append(torch.where(torch.isnan(given) & new[:, None], 0.0, given))
        return torch.cat(found), torch.cat(labels), torch.cat(completed)

    def _wide(self, labels: Tensor) -> Tensor:
        """Labels with a column for every class."""
        missing = labels.new_full((len(labels), self.num_classes - labels.shape[1]), torch.nan)
        return torch.cat([labels, missing], dim=1)

    def _guesses(self, vectors: Tensor, given: Tensor) -> Tensor:
        """The current head's guesses of missing labels, rounded to the precision of the records."""
        guesses = torch.zeros(given.shape, dtype=torch.float64)
        if self._head is None:
            return guesses
        scores, log_odds = self._head
        if self._learner.unknown == "hard":
            found = (log_odds(vectors).sigmoid() > self._learner.threshold).double()
        elif self._learner.unknown == "soft":
            found = log_odds(vectors).sigmoid()
        else:
            found = scores(vectors)
        width = found.shape[1]
        unsaid = ~given[:, :width] & self._known_classes
        guesses[:, :width] = torch.where(unsaid, found.half().double(), 0.0)
        return guesses

    def _find_repeats(self, vectors: Tensor, given: Tensor, again: Tensor) -> None:
        """Count images with an unannotated earlier class, and the repeats among them."""
        if self._head is None or self._learner.unknown != "auto":
            return
        scores, log_odds = self._head
        if self._learner.calibration == "none":
            probability = scores(vectors).clamp(0, 1)
        else:
            probability = log_odds(vectors).sigmoid()
        unsaid = ~given[:, : probability.shape[1]] & self._known_classes
        has_one = 1 - (1 - probability * unsaid).prod(dim=1)
        self.evidence += torch.stack([has_one.sum(), has_one[again].sum()])

    def _noted_before(self, names: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Labels and guesses of images so far, and which of them are repeats."""
        assert self._records is not None
        rows = self._records.rows(names)
        again = rows >= 0
        labels = torch.full((len(names), self.num_classes), NOT_GIVEN, dtype=torch.int8)
        guesses = torch.zeros(len(names), self.num_classes, dtype=torch.float16)
        width = self._records.labels.shape[1]
        labels[again, :width] = self._records.labels[rows[again]]
        guesses[again, :width] = self._records.guesses[rows[again]]
        for at, name in enumerate(names):
            if name in self._place:  # earlier in this experience
                batch, row = self._place[name]
                given, guessed = self._noted[batch][1][row], self._noted[batch][2][row]
                labels[at] = torch.where(given != NOT_GIVEN, given, labels[at])
                guesses[at] = guessed
                again[at] = True
        return labels, guesses, again

    def _note(self, names: list[int], labels: Tensor, guesses: Tensor, vectors: Tensor) -> None:
        assert self._records is not None
        kept = vectors.float() if self._records.keeps_vectors else vectors.new_zeros(len(names), 0)
        given = as_given(labels, self.num_classes)
        for at, name in enumerate(names):
            if name in self._place:  # so that the last entry is complete
                batch, row = self._place[name]
                so_far = self._noted[batch][1][row]
                given[at] = torch.where(given[at] == NOT_GIVEN, so_far, given[at])
            self._place[name] = (len(self._noted), at)
        self._noted.append((names, given, guesses.half(), kept))

    def _weights(self, labels: Tensor) -> Tensor | None:
        if self._learner.weighting == "equal":
            return None
        rarity = self.class_counts.clamp(min=1).rsqrt() * (self.class_counts > 0)
        rarity = (rarity / rarity.mean()).to(labels)
        return (labels @ rarity) / labels.sum(1).clamp(min=1)

    def _every(self, windows: int) -> slice:
        """Which images of a batch to use for calibration."""
        most = min(CALIBRATION_IMAGES, CALIBRATION_WINDOWS // max(windows, 1))
        return slice(None, None, -(-self.images // most))


def guessed_again(before: Tensor, vectors: Tensor, scores: LinearScores) -> Tensor:
    """A head's scores where guesses were counted before, rounded to the precision of the records."""
    return torch.where(before != 0, scores(vectors).half().to(before), before)
