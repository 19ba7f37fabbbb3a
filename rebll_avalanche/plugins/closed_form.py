"""Solves the head in closed form at the end of every experience, from sums that forget nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn
from torch.utils.data import DataLoader

from rebll_avalanche.closed_form.calibration import ScoreCalibration
from rebll_avalanche.closed_form.ridge import LinearScores, RidgeSolver
from rebll_avalanche.closed_form.sums import RidgeSums, with_one
from rebll_avalanche.labels import annotated, grown, label_matrix
from rebll_avalanche.models.windows import seen_twice
from rebll_avalanche.scenario import class_range
from rebll_avalanche.words import check_choice

CALIBRATIONS = ("logistic", "gaussian", "none")
UNKNOWN_AS = ("negative", "hard", "soft", "prior")
WEIGHTINGS = ("equal", "inverse_sqrt")
# Enough to fit three numbers; keeps the memory of a long experience bounded.
CALIBRATION_IMAGES = 4096
CALIBRATION_WINDOWS = 16384


class ClosedFormPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Replaces the rows of a linear head by a ridge regression on all images so far.

    Each experience is passed over once, in evaluation mode. An image adds to the sums of
    :class:`~rebll_avalanche.closed_form.sums.RidgeSums` and is not kept. In a strategy that trains the
    network, the pass follows the training; earlier sums are then of earlier features.

    Args:
        unknown: What a label that nobody gave counts as: ``"negative"``; ``"hard"``: 1 if the model so
            far gives it a probability above ``threshold``; ``"soft"``: that probability; ``"prior"``:
            the share of images that have the class.
        threshold: For ``"hard"``.
        gamma: The ridge penalty; by default chosen by generalised cross-validation.
        per_class_gamma: Choose one for every class.
        recognise_repeats: Keep a 64-bit fingerprint of every image. An image that comes again (with
            labels for other classes) then adds its new labels, and is not counted twice. Where every
            experience has all images of its classes, the head equals the one fitted to all labels.
        calibration: How scores become log-odds: ``"logistic"``, three numbers fitted to images that
            the head has not seen (:class:`~rebll_avalanche.closed_form.calibration.ScoreCalibration`);
            ``"gaussian"``, from the sums alone; ``"none"``, plain scores.
        intercept: Fit one.
        weighting: ``"equal"``, or ``"inverse_sqrt"``: an image counts as much as the mean of
            ``1 / sqrt(images of the class)`` over its classes, relative to the mean over all classes.
    """

    def __init__(
        self,
        *,
        unknown: str = "negative",
        threshold: float = 0.7,
        gamma: float | None = None,
        per_class_gamma: bool = False,
        recognise_repeats: bool = True,
        calibration: str = "logistic",
        intercept: bool = True,
        weighting: str = "equal",
    ) -> None:
        super().__init__()
        check_choice("unknown", unknown, UNKNOWN_AS)
        check_choice("weighting", weighting, WEIGHTINGS)
        check_choice("calibration", calibration, CALIBRATIONS)
        if calibration != "none" and not intercept:
            raise ValueError(f"calibration={calibration!r} needs intercept=True")
        self.unknown = unknown
        self.threshold = threshold
        self.gamma = gamma
        self.per_class_gamma = per_class_gamma
        self.recognise_repeats = recognise_repeats
        self.calibration = calibration
        self.intercept = intercept
        self.weighting = weighting
        self.sums: RidgeSums | None = None
        self.score_calibration = ScoreCalibration()
        self.class_counts = torch.zeros(0, dtype=torch.float64)
        self.fingerprints: set[int] = set()
        self._passed = False

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Make room for the classes of the experience."""
        head = strategy.model.head
        if getattr(head, "weight", None) is None or getattr(head, "bias", None) is None:
            raise ValueError(
                f"{type(head).__name__} has no rows that a regression could solve; "
                "use head='linear', 'expanded' or 'random'"
            )
        self._lo, self._hi = class_range(strategy.experience)
        if len(self.class_counts) > self._lo:
            raise ValueError(
                f"experience {strategy.experience.current_experience} has been learned, and its images would "
                "be counted twice; go on with the next experience"
            )
        if self.sums is None:
            self.sums = RidgeSums(head.in_features)
        self._added = RidgeSums(head.in_features, self._hi)
        self._again = torch.zeros(head.in_features + 1, dtype=torch.float64)
        # Not among the others before the experience ends, so that a stopped one can start over.
        self._noted: set[int] = set()
        self._passed = False
        # Features, labels as added, labels as known, features of windows: until the experience ends.
        self._sample: list[tuple[Tensor, ...]] = []
        self._images = len(strategy.experience.dataset)
        labels = label_matrix(strategy.experience.dataset)[:, : self._hi].nan_to_num(0.0)
        self._counts = grown(self.class_counts, self._hi) + labels.double().sum(0)

    @torch.no_grad()
    def observe(self, model: Any, images: Tensor, targets: Tensor) -> Tensor:
        """Add a batch to the sums; the model must be in evaluation mode.

        Returns:
            The logits of the batch before the head is solved anew.
        """
        self._passed = True
        vectors = expanded(model.head, model.features(images))
        logits: Tensor = nn.functional.linear(vectors, model.head.weight, model.head.bias)
        vectors, targets = vectors.cpu(), targets[:, : self._hi].cpu()
        again = self._seen_before(images)
        new = ~again
        labels = self._labels(targets, logits[:, : self._lo].sigmoid().cpu())
        self._added.add(vectors[new], labels[new], self._weights(labels[new]))
        if self.calibration == "logistic":
            # Of an image that comes again nobody has kept the earlier labels.
            trusted = new[:, None] & (self.unknown == "negative")
            known = torch.where(annotated(targets) | trusted, labels, torch.nan)
            windows = images.shape[1] if model.has_windows(images) else 0
            chosen = self._every(windows)
            sample = [vectors[chosen], labels[chosen], known[chosen]]
            if windows:
                places = images[chosen]
                of_places = expanded(model.head, model.features(places.flatten(0, 1)))
                sample.append(of_places.unflatten(0, places.shape[:2]).cpu())
            self._sample.append(tuple(sample))
        if bool(again.any()):
            self._added.add_labels(vectors[again], targets[again].nan_to_num(0.0))
            self._again += with_one(vectors[again]).sum(0)
        return logits

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Pass over the experience, unless the strategy has done so, and solve."""
        if not self._passed:
            self._pass_over(strategy)
        assert self.sums is not None
        self._added.all_reduce()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(self._again)
            self._noted = _union(self._noted)
        self.sums.grow(self._hi)
        if self.unknown == "prior" and self.sums.images:
            share = self._added.positives / (self.sums.images + self._added.images)
            columns = slice(self._lo, self._hi)
            self.sums.fill(share[columns], columns, without=self._again)
        self.sums.merge(self._added)
        self.fingerprints |= self._noted
        self.class_counts = self._counts
        self._install(strategy.model.head)
        del self._added, self._again, self._noted, self._sample

    def scores(self) -> LinearScores:
        """The solved head in float64; its scores are log-odds unless ``calibration="none"``."""
        return self._calibrated(*self._solve())

    @property
    def num_bytes(self) -> int:
        """Size of everything that is kept between experiences."""
        kept = 0 if self.sums is None else self.sums.num_bytes
        return kept + 8 * (len(self.class_counts) + len(self.fingerprints) + 12)

    def state_dict(self) -> dict[str, Any]:
        """The sums, the class counts and the fingerprints: no image, no label of an image."""
        return {
            "sums": {} if self.sums is None else self.sums.state_dict(),
            "calibration": self.score_calibration.state_dict(),
            "class_counts": self.class_counts,
            "fingerprints": torch.tensor(sorted(self.fingerprints), dtype=torch.int64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        self.sums = None
        if state["sums"]:
            self.sums = RidgeSums(0)
            self.sums.load_state_dict(state["sums"])
        self.score_calibration.load_state_dict(state["calibration"])
        self.class_counts = state["class_counts"]
        self.fingerprints = set(state["fingerprints"].tolist())

    def _solve(self) -> tuple[RidgeSolver, LinearScores, float | Tensor]:
        if self.sums is None:
            raise ValueError("there is no head before the first experience has ended")
        solver = RidgeSolver(self.sums, intercept=self.intercept)
        gamma: float | Tensor | None = self.gamma
        if gamma is None:
            gamma = solver.choose_gamma(per_class=self.per_class_gamma)
        return solver, solver.solve(gamma), gamma

    def _calibrated(
        self, solver: RidgeSolver, scores: LinearScores, gamma: float | Tensor
    ) -> LinearScores:
        if self.calibration == "none":
            return scores
        moments = solver.moments(scores, gamma)
        if self.calibration == "gaussian":
            return scores.rescaled(*moments.gaussian_line())
        return scores.rescaled(*self.score_calibration.line(moments.spread, moments.share))

    def _fit_calibration(
        self, solver: RidgeSolver, scores: LinearScores, gamma: float | Tensor
    ) -> None:
        moments = solver.moments(scores, gamma)
        left_out, labels = [], []
        for features, added, known, *places in self._sample:
            found = solver.left_out(scores, gamma, features, added, *places)
            left_out.append(seen_twice(found) if places else found)
            labels.append(known)
        known = torch.cat(labels)
        self.score_calibration.fit(torch.cat(left_out), known, moments.spread, moments.share)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for tensor in self.score_calibration.state_dict().values():
                torch.distributed.broadcast(tensor, src=0)

    def _install(self, head: Any) -> None:
        solution = self._solve()
        if self.calibration == "logistic":
            self._fit_calibration(*solution)
        scores = self._calibrated(*solution)
        with torch.no_grad():
            head.weight.copy_(scores.weight.T)
            head.bias.copy_(scores.bias)

    def _pass_over(self, strategy: Any) -> None:
        model, training = strategy.model, strategy.model.training
        model.eval()
        loader = DataLoader(strategy.experience.dataset.eval(), batch_size=strategy.eval_mb_size)
        for batch in loader:
            self.observe(model, batch[0].to(strategy.device), batch[1])
        model.train(training)

    def _labels(self, targets: Tensor, old_probability: Tensor) -> Tensor:
        """Targets of images with every unknown label replaced."""
        guess = torch.zeros_like(targets)
        if self.unknown == "hard":
            guess[:, : self._lo] = (old_probability > self.threshold).to(guess)
        elif self.unknown == "soft":
            guess[:, : self._lo] = old_probability
        elif self.unknown == "prior" and self._lo:
            assert self.sums is not None
            guess[:, : self._lo] = (self.sums.positives / self.sums.images).to(guess)
        return torch.where(annotated(targets), targets, guess)

    def _weights(self, labels: Tensor) -> Tensor | None:
        if self.weighting == "equal":
            return None
        rarity = self._counts.clamp(min=1).rsqrt() * (self._counts > 0)
        rarity = (rarity / rarity.mean()).to(labels)
        return (labels @ rarity) / labels.sum(1).clamp(min=1)

    def _every(self, windows: int) -> slice:
        """Which images of a batch to calibrate with."""
        most = min(CALIBRATION_IMAGES, CALIBRATION_WINDOWS // max(windows, 1))
        return slice(None, None, -(-self._images // most))

    def _seen_before(self, images: Tensor) -> Tensor:
        """Which images of a batch came before, and note the others."""
        again = torch.zeros(len(images), dtype=torch.bool)
        if self.recognise_repeats:
            for index, image in enumerate(images.cpu()):
                pixels = image.contiguous().numpy()
                digest = hashlib.blake2b(pixels, digest_size=8).digest()
                fingerprint = int.from_bytes(digest, "little", signed=True)
                again[index] = fingerprint in self.fingerprints or fingerprint in self._noted
                self._noted.add(fingerprint)
        return again


def expanded(head: Any, feature_map: Tensor) -> Tensor:
    """The vectors that a linear head sees."""
    if hasattr(head, "expand"):
        vectors: Tensor = head.expand(feature_map)
        return vectors
    return feature_map.mean(dim=(2, 3)) if feature_map.ndim == 4 else feature_map


def _union(mine: Iterable[int]) -> set[int]:
    gathered: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(gathered, set(mine))
    return set().union(*gathered)
