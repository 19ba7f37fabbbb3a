"""What a closed-form learner has counted, and the head that follows from it."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from rebll_avalanche.closed_form.calibration import Calibrations, share_weights
from rebll_avalanche.closed_form.pending import PendingExperience, guessed_again
from rebll_avalanche.closed_form.records import NOT_GIVEN, ImageRecords
from rebll_avalanche.closed_form.ridge import LinearScores, RidgeSolver, ScoreMoments, Solution
from rebll_avalanche.closed_form.sums import LabelSums, RidgeSums
from rebll_avalanche.labels import grown
from rebll_avalanche.stateful import Stateful

Calibration = Literal["logistic", "gaussian", "none"]
UnknownAs = Literal["auto", "negative", "shrunk", "hard", "soft"]
Weighting = Literal["equal", "inverse_sqrt"]
# Share of images with an unannotated earlier class that must be repeats for "auto" to mean "negative".
REPEATED = 0.05
MAX_SHARE = 0.95


class CountedImages(Stateful):
    """Sums over images, over guesses of their missing labels, and the records of single images.

    The base of :class:`~rebll_avalanche.closed_form.learner.RidgeLearner`, which describes the parameters.
    """

    stored = (
        *("sums", "guesses", "calibrations", "class_counts", "annotated", "evidence"),
        "numbers",  # of experiences learned and not forgotten
    )

    unknown: UnknownAs
    shrink: float
    gamma: float | None
    per_class_gamma: bool
    calibration: Calibration
    intercept: bool
    weighting: Weighting

    def __init__(self, num_features: int, records: ImageRecords | None) -> None:
        self.sums = RidgeSums(num_features)
        self.guesses = LabelSums(num_features)
        self.calibrations = Calibrations()
        self.class_counts = torch.zeros(0, dtype=torch.float64)
        self.annotated = torch.zeros(0, dtype=torch.float64)
        self.evidence = torch.zeros(2, dtype=torch.float64)
        self.numbers: list[int] = []
        self.records = records
        self._head: tuple[LinearScores, LinearScores] | None = None

    @property
    def num_classes(self) -> int:
        """Number of columns so far."""
        return self.sums.num_classes

    @property
    def guess_share(self) -> float:
        """The share with which a guess counts for a missing label."""
        if self.unknown == "negative" or (self.unknown == "auto" and self.repeats_tell):
            return 0.0
        return 1.0 if self.unknown in ("hard", "soft") else self.shrink

    @property
    def repeats_tell(self) -> bool:
        """Whether images with an earlier class repeat, so that new images have no earlier class."""
        found, again = self.evidence.tolist()
        return bool(again >= REPEATED * found)  # also if nothing is unknown

    @property
    def num_bytes(self) -> int:
        """Size of everything that is kept between experiences."""
        kept = 0 if self.records is None else self.records.num_bytes
        numbers = 2 * len(self.class_counts) + 24 + len(self.evidence)
        return self.sums.num_bytes + self.guesses.num_bytes + kept + 8 * numbers

    def state_dict(self) -> dict[str, Any]:
        """The sums, the calibration, and the records of single images."""
        records = {} if self.records is None else self.records.state_dict()
        return super().state_dict() | {"records": records}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        if self.records is not None:
            self.records.load_state_dict(state["records"])
        self._head = None

    @property
    def _next_number(self) -> int:
        return max(self.numbers, default=-1) + 1

    def _kept(self, purpose: str) -> ImageRecords:
        if self.records is None:
            raise ValueError(f"{purpose} needs records of single images; learn with keep='labels'")
        if self.weighting != "equal":
            raise ValueError(f"{purpose} needs weighting='equal'")
        return self.records

    def _vectors_of(self, rows: Tensor, vectors: Tensor | None) -> Tensor:
        assert self.records is not None
        if vectors is not None:
            return vectors
        if not self.records.keeps_vectors:
            raise ValueError(
                "the images' vectors were not kept; pass vectors=..., or learn with keep='vectors'"
            )
        return self.records.vectors[rows]

    def _counted(self, rows: Tensor) -> Tensor:
        """The targets with which images are counted in the sums."""
        assert self.records is not None
        labels = self.records.labels[rows].clamp(min=0).double()
        return labels + self.guess_share * self.records.guesses[rows].double()

    def _relabel(self, rows: Tensor, vectors: Tensor, after: Tensor) -> None:
        """Change the counted labels of images; given labels replace guesses."""
        assert self.records is not None
        before, guesses = self.records.labels[rows], self.records.guesses[rows]
        self.sums.relabel(vectors, before.clamp(min=0), after.clamp(min=0))
        left = guesses.masked_fill(after != NOT_GIVEN, 0)
        self.guesses.relabel(vectors, guesses, left)
        self.records.guesses[rows] = left
        self.annotated += ((after != NOT_GIVEN).double() - (before != NOT_GIVEN).double()).sum(0)
        self.class_counts += (after.clamp(min=0).double() - before.clamp(min=0).double()).sum(0)

    def _remove(self, rows: Tensor, vectors: Tensor) -> None:
        assert self.records is not None
        self._relabel(rows, vectors, torch.full_like(self.records.labels[rows], NOT_GIVEN))
        guesses = self.records.guesses[rows]
        self.guesses.relabel(vectors, guesses, torch.zeros_like(guesses))
        self.sums.remove(vectors, torch.zeros(len(rows), self.num_classes))

    def _widen(self, num_classes: int) -> None:
        classes = max(num_classes, self.num_classes)
        self.sums.grow(classes)
        self.guesses.grow(classes)
        self.annotated = grown(self.annotated, classes)
        self.class_counts = grown(self.class_counts, classes)
        if self.records is not None:
            self.records.grow(classes)
        self._head = None

    @property
    def _guesses_follow(self) -> bool:
        """Whether guesses are made again by every later head, which knows more than that of their time."""
        records = self.records
        if records is None or not records.keeps_vectors or self.weighting != "equal":
            return False
        used = bool(self.guess_share) and self.unknown in ("shrunk", "auto")
        return used and bool(records.guesses.any())

    def _guess_again(self, scores: LinearScores) -> None:
        assert self.records is not None
        records = self.records
        rows = records.guesses.any(1).nonzero().flatten()
        before, vectors = records.guesses[rows], records.vectors[rows]
        after = guessed_again(before, vectors, scores)
        self.guesses.relabel(vectors, before, after)
        records.guesses[rows] = after

    def _solution(self, same_images: RidgeSolver | None = None) -> Solution:
        if self.sums.images <= 0:
            raise ValueError("there is no head before the first experience has ended")
        sums = self.sums.with_guesses(self.guesses, self.guess_share)
        solver = RidgeSolver(sums, intercept=self.intercept, same_images=same_images)
        gamma: float | Tensor | None = self.gamma
        if gamma is None:
            gamma = solver.choose_gamma(per_class=self.per_class_gamma)
        return Solution(solver, solver.solve(gamma), gamma)

    def _calibrated(self, solution: Solution) -> LinearScores:
        if self.calibration == "none":
            return solution.scores
        return solution.scores.rescaled(*self._line(solution))

    def _line(self, solution: Solution) -> tuple[Tensor, Tensor]:
        """Slope and offset of the log-odds, per class."""
        if self.calibration == "none":
            bias = solution.scores.bias
            return torch.ones_like(bias), torch.zeros_like(bias)
        moments = solution.moments()
        if self.calibration == "gaussian":
            return moments.gaussian_line()
        if self.guess_share:
            return self.calibrations.guessed.line(*self._guessed_scale(moments))
        return self.calibrations.absent.line(moments.spread, moments.share)

    def _guessed_scale(self, moments: ScoreMoments) -> tuple[Tensor, Tensor]:
        """Per class, the unit of its scores and the share of images that have it, where labels are guessed.

        The spreads of positives and negatives cannot be separated then, so the unit comes from all scores,
        and the sum of guesses estimates the number of unannotated positives.
        """
        expected = (self.sums.positives + self.guesses.positives).clamp(min=0)
        share = (expected + 0.5) / (self.sums.images + 1)
        return moments.overall, share.clamp(max=MAX_SHARE)

    def _calibrate(self, pending: PendingExperience, solution: Solution) -> None:
        moments = solution.moments()
        left_out, given, completed = pending.left_out(solution, self.guess_share)
        self.calibrations.absent.fit(left_out, completed, moments.spread, moments.share)
        spread, share = self._guessed_scale(moments)
        weights = share_weights(given, share)
        self.calibrations.guessed.fit(left_out, given, spread, share, weights)
