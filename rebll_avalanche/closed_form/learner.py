"""A head learned in closed form from vectors and labels, with corrections and exact forgetting.

Needs neither Avalanche nor a network: from vectors and labels, which are 1, 0 or NaN (not annotated) in
any column, it computes a linear head. Images are stored as sums, so whatever was added can be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import KW_ONLY, InitVar, dataclass, fields
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from rebll_avalanche.arguments import check_number, check_tensor
from rebll_avalanche.closed_form.counted import Calibration, CountedImages, UnknownAs, Weighting
from rebll_avalanche.closed_form.pending import PendingExperience
from rebll_avalanche.closed_form.records import NOT_GIVEN, ImageRecords, as_given
from rebll_avalanche.closed_form.ridge import LinearScores
from rebll_avalanche.labels import check_targets, grown
from rebll_avalanche.words import brief, check_choice

Keep = Literal["sums", "labels", "vectors"]
# How often later heads replace guesses after an experience; they hardly change after that.
ROUNDS = 2
# The sums of products of such vectors fill all memory there is; a larger number is a slip.
LARGEST_VECTOR = 2**20


@dataclass(eq=False)
class RidgeLearner(CountedImages):
    """Learns a linear head exactly, experience by experience.

    Args:
        num_features: Length of the vectors.
        unknown: Target for a missing label of a class that was known when the image arrived:
            ``"negative"``: absent; ``"shrunk"``: ``shrink`` times the head's own score; ``"hard"``: 1 if
            the current head's probability is above ``threshold``; ``"soft"``: that probability;
            ``"auto"``: absent if images of earlier classes are observed to repeat, else ``"shrunk"``.
            Classes that arrive later are absent. If vectors are kept, ``"shrunk"`` follows the head: after
            each experience, its scores replace those of earlier heads.
        threshold: For ``"hard"``.
        shrink: Factor of the score for ``"shrunk"`` and ``"auto"``.
        gamma: The ridge penalty; by default chosen by generalised cross-validation.
        per_class_gamma: Choose one penalty per class.
        keep: What is stored besides the sums: ``"sums"``: nothing; ``"labels"``: a fingerprint and the
            labels of every image, so that a repeated image is not counted twice and an image given again
            can be corrected or forgotten; ``"vectors"``: its features too, so that it need not be given
            again. If every experience has all images of its classes, the head equals the one fitted to
            all labels, unless only sums are kept.
        calibration: How scores become log-odds: ``"logistic"``, three coefficients fitted to held-out
            scores (:class:`~rebll_avalanche.closed_form.calibration.ScoreCalibration`);
            ``"gaussian"``, from the sums alone; ``"none"``, plain scores.
        intercept: Fit an intercept.
        weighting: ``"equal"``, or ``"inverse_sqrt"``: an image's weight is the mean of
            ``1 / sqrt(images of the class)`` over its classes, relative to the mean over all classes.

    >>> vectors, labels = torch.eye(4).repeat(5, 1), torch.eye(4).repeat(5, 1)
    >>> learner = RidgeLearner(num_features=4, gamma=0.1)
    >>> learner.learn(vectors, labels[:, :2])  # later: more vectors, more columns, NaN for unknown
    >>> learner.learn(vectors[2:4], labels[2:4])
    >>> learner.solve()(vectors[:1]).sigmoid().argmax().item()
    0
    """

    num_features: InitVar[int]
    _: KW_ONLY
    unknown: UnknownAs = "auto"
    threshold: float = 0.7
    shrink: float = 0.5
    gamma: float | None = None
    per_class_gamma: bool = False
    keep: Keep = "labels"
    calibration: Calibration = "logistic"
    intercept: bool = True
    weighting: Weighting = "equal"

    def __post_init__(self, num_features: int) -> None:
        check_choice("unknown", self.unknown, get_args(UnknownAs))
        check_choice("weighting", self.weighting, get_args(Weighting))
        check_choice("calibration", self.calibration, get_args(Calibration))
        check_choice("keep", self.keep, get_args(Keep))
        check_number("num_features", num_features, 0, LARGEST_VECTOR, whole=True)
        check_number("threshold", self.threshold, 0, 1)
        check_number("shrink", self.shrink, 0, 1)
        if self.gamma is not None:
            check_number("gamma", self.gamma, 0)
            self.gamma = float(self.gamma)  # torch takes no larger int
        if self.calibration != "none" and not self.intercept:
            raise ValueError(f"calibration={self.calibration!r} needs intercept=True")
        kept = ImageRecords(num_features if self.keep == "vectors" else 0)
        super().__init__(num_features, None if self.keep == "sums" else kept)
        self._under_way: PendingExperience | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The parameters that it was made with."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # Learning

    def learn(
        self,
        vectors: Tensor,
        labels: Tensor,
        images: Sequence[int] | None = None,
        *,
        number: int | None = None,
    ) -> None:
        """Learn an experience.

        Args:
            vectors: ``[images, num_features]``.
            labels: ``[images, classes]`` of 1, 0 and NaN; additional columns are new classes.
            images: A unique number per image, such as its
                :func:`~rebll_avalanche.closed_form.records.fingerprints`; by default those of the vectors.
            number: Number of the experience, to forget it by; the next free one by default.
        """
        self._check_batch(vectors, labels, images)
        if number is not None:
            check_number("number", number, NOT_GIVEN, whole=True)  # of labels that came later
        self.begin(labels, number=number)
        if len(vectors):  # else all its images were forgotten
            self.observe(vectors, labels, images)
        self.end()

    def _check_batch(self, vectors: Tensor, labels: Tensor, images: Sequence[int] | None) -> None:
        check_tensor("vectors", vectors)
        check_tensor("labels", labels)
        if vectors.ndim != 2 or vectors.shape[1] != self.sums.num_features:
            raise ValueError(
                f"vectors must be [images, {self.sums.num_features}], got {tuple(vectors.shape)}"
            )
        if labels.ndim != 2 or len(labels) != len(vectors):
            raise ValueError(
                f"labels must be [{len(vectors)}, classes], one row per vector, got {tuple(labels.shape)}"
            )
        check_targets(labels)
        if not bool(vectors.isfinite().all()):
            raise ValueError("vectors must be finite, but hold NaN or infinity")
        if images is None:
            return
        if not isinstance(images, Sized) or len(images) != len(vectors):
            raise ValueError(
                f"images must be {len(vectors)} numbers, one per vector, got {brief(images)}"
            )
        for image in images:
            check_number("each of images", image, whole=True)

    def begin(
        self,
        labels: Tensor,
        *,
        number: int | None = None,
        combine: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Start an experience; one that was started but not ended is discarded.

        Args:
            labels: Labels of all its images.
            number: As in :meth:`learn`.
            combine: If images are scored at several places, reduces ``[images, places, classes]`` to
                ``[images, classes]``.
        """
        if number is None:
            number = self._next_number
        elif number in self.numbers:
            raise ValueError(
                f"experience {number} was already learned; continue with the next one, or forget it first"
            )
        self._under_way = PendingExperience(self, labels, number, combine)

    def observe(
        self,
        vectors: Tensor,
        labels: Tensor,
        images: Sequence[int] | None = None,
        places: Tensor | None = None,
    ) -> None:
        """Add a batch of the experience.

        Args:
            vectors: As in :meth:`learn`, like ``labels`` and ``images``.
            labels: NaN where not annotated.
            images: A unique number per image.
            places: ``[images, places, num_features]``: the vectors that score an image, if not its own
                vector alone; needs ``combine`` in :meth:`begin`. Used only for calibration.
        """
        self._pending.observe(vectors, labels, images, places)

    def end(self) -> None:
        """End the experience: add it to the sums, and calibrate."""
        pending = self._pending
        self.sums.grow(pending.num_classes)
        self.sums.merge(pending.added)
        self.guesses.grow(pending.num_classes)
        self.guesses.merge(pending.guessed)
        self.class_counts = pending.class_counts
        self.annotated = grown(self.annotated, pending.num_classes) + pending.annotated
        self.evidence = self.evidence + pending.evidence
        if pending.number != NOT_GIVEN:
            self.numbers = [*self.numbers, pending.number]
        if self.records is not None:
            pending.note(self.records)
        self._under_way = self._head = None
        if not pending.images:
            return
        solution = self._solution()
        for _ in range(ROUNDS if self._guesses_follow else 0):
            self._guess_again(solution.scores)
            pending.guess_again(solution.scores)
            solution = self._solution(same_images=solution.solver)
        if self.calibration == "logistic":
            self._calibrate(pending, solution)
        self._head = (solution.scores, self._calibrated(solution))

    # The head

    def solve(self) -> LinearScores:
        """The head in float64; its scores are log-odds unless ``calibration="none"``."""
        return self.head_so_far()[1]

    def head_so_far(self) -> tuple[LinearScores, LinearScores]:
        """Plain scores, which regress labels, and those of :meth:`solve`."""
        if self._head is None:
            solution = self._solution()
            self._head = (solution.scores, self._calibrated(solution))
        return self._head

    def left_out_scores(
        self, images: Sequence[int] | None = None, vectors: Tensor | None = None
    ) -> Tensor:
        """Leave-one-out scores of learned images.

        Args:
            images: The images; all by default.
            vectors: Vectors of these images, unless they are kept.

        Returns:
            ``[images, classes]``: each image's score by the head fitted to all others.
        """
        records = self._kept("scoring without itself")
        rows = torch.arange(len(records)) if images is None else records.known_rows(images)
        vectors = self._vectors_of(rows, vectors)
        solution = self._solution()
        slope, offset = self._line(solution)
        return slope * solution.left_out(vectors, self._counted(rows)) + offset

    # Changing what was learned

    def correct(self, images: Sequence[int], labels: Tensor, vectors: Tensor | None = None) -> None:
        """Change or add labels of learned images.

        Args:
            images: Their numbers, as when they were learned.
            labels: ``[images, classes]``; NaN leaves a label as it is.
            vectors: Vectors of these images, unless they are kept.
        """
        records = self._kept("correcting")
        rows = records.known_rows(images)
        vectors = self._vectors_of(rows, vectors)
        self._widen(labels.shape[1])
        given = as_given(labels, self.num_classes)
        before = records.labels[rows]
        after = torch.where(given != NOT_GIVEN, given, before)
        self._relabel(rows, vectors, after)
        records.correct(rows, given)
        self._changed()

    def forget_images(self, images: Sequence[int], vectors: Tensor | None = None) -> None:
        """Remove images with all their labels.

        Args:
            images: Their numbers, as when they were learned.
            vectors: Vectors of these images, unless they are kept.
        """
        records = self._kept("forgetting images")
        rows = records.known_rows(images)
        self._remove(rows, self._vectors_of(rows, vectors))
        records.forget(rows)
        self._changed()

    def forget_classes(self, columns: Sequence[int]) -> None:
        """Remove all labels of some classes; images and other columns stay."""
        for sums in (self.sums, self.guesses):
            sums.clear(columns)
        self.annotated[list(columns)] = 0
        self.class_counts[list(columns)] = 0
        if self.records is not None:
            self.records.forget_classes(columns)
        self._changed()

    def forget_experience(
        self, number: int, images: Sequence[int] | None = None, vectors: Tensor | None = None
    ) -> None:
        """Remove an experience: its labels, and images that are in no other experience.

        Args:
            number: Its number, as in :meth:`learn`.
            images: All of its images in any order, unless vectors are kept.
            vectors: Vectors of these images.
        """
        records = self._kept("forgetting an experience")
        rows = records.of_experience(number).rows
        if images is not None:
            given = records.known_rows(images)
            if set(given.tolist()) != set(rows.tolist()):
                raise ValueError(
                    f"experience {number} had {len(rows)} images, got {len(given)} that are not the same"
                )
            rows = given
        vectors = self._vectors_of(rows, vectors)
        before = records.labels.clone()
        records.forget_experience(number)
        self.numbers = [other for other in self.numbers if other != number]
        after = records.labels[rows]
        elsewhere = torch.zeros(len(records), dtype=torch.bool)
        for entry in records.given:
            if entry.number != NOT_GIVEN:  # a correction brings labels, not images
                elsewhere[entry.rows] = True
        records.labels = before  # as currently counted in the sums
        stays = elsewhere[rows]
        self._relabel(rows[stays], vectors[stays], after[stays])
        self._remove(rows[~stays], vectors[~stays])
        records.labels[rows[stays]] = after[stays]
        records.forget(rows[~stays])
        self._changed()

    def merge(
        self,
        other: RidgeLearner,
        *,
        columns: Sequence[int] | None = None,
        first_number: int | None = None,
    ) -> None:
        """Add what another learner has learned, from the same kind of vectors.

        With vectors kept, this equals learning the other's experiences after one's own. Otherwise sums are
        added, which is the same if the two share no image and unknown labels count as absent.

        Args:
            other: The other learner.
            columns: Where its columns stand here, if not in the same places; needs its vectors.
            first_number: The number that its experience 0 gets here; the next free one by default.
        """
        if other.records is not None and self.records is not None:
            if other.records.keeps_vectors:
                first = self._next_number if first_number is None else first_number
                self._learn_again(other.records, first, columns)
                return
            both = len(self.records.index.keys() & other.records.index.keys())
            if both:
                raise ValueError(
                    f"{both} images were learned by both learners and would count twice; "
                    "learn with keep='vectors' to merge them"
                )
            other.records.copy_to(self.records, first_number=self._next_number)
        elif (other.records is None) != (self.records is None):
            raise ValueError(
                "only one of the two learners keeps single images; use the same keep for both"
            )
        moved = [number + self._next_number for number in other.numbers]
        self.numbers = self.numbers + moved
        self.sums.merge(other.sums)
        self.guesses.merge(other.guesses)
        classes = self.num_classes
        self.annotated = grown(self.annotated, classes) + grown(other.annotated, classes)
        self.class_counts = grown(self.class_counts, classes) + grown(other.class_counts, classes)
        self.evidence = self.evidence + other.evidence
        self.calibrations.merge(other.calibrations)
        self._head = None

    def relearn(self) -> None:
        """Learn all remaining experiences again, from the kept vectors.

        Guesses and calibration then equal those of a learner that never saw what was forgotten; the sums
        do so right after forgetting.
        """
        records = self._kept("relearning")
        if not records.keeps_vectors:
            raise ValueError(
                "relearning needs the vectors of all images; learn with keep='vectors'"
            )
        fresh = RidgeLearner(self.sums.num_features, **self.options)
        fresh._learn_again(records)
        fresh._widen(self.num_classes)
        self.load_state_dict(fresh.state_dict())

    # Inside

    @property
    def _pending(self) -> PendingExperience:
        if self._under_way is None:
            raise ValueError(
                "no experience has been started; call begin(labels) first, or learn(...)"
            )
        return self._under_way

    def _changed(self) -> None:
        """Recompute guesses after a change, if vectors are kept."""
        self._head = None
        records = self.records
        if records is not None and records.keeps_vectors and self.guess_share:
            self.relearn()

    def _learn_again(
        self, records: ImageRecords, first_number: int = 0, columns: Sequence[int] | None = None
    ) -> None:
        """Learn every experience in records with vectors; see :meth:`merge`."""
        names = torch.tensor(list(records.index), dtype=torch.int64)
        for entry in list(records.given):
            labels = entry.labels.double().masked_fill(entry.labels == NOT_GIVEN, torch.nan)
            if columns is not None:
                wide = labels.new_full((len(labels), max(columns, default=-1) + 1), torch.nan)
                wide[:, list(columns[: labels.shape[1]])] = labels
                labels = wide
            images = names[entry.rows].tolist()
            number = entry.number + first_number if entry.number != NOT_GIVEN else NOT_GIVEN
            self.learn(records.vectors[entry.rows], labels, images, number=number)
