"""Solves the head in closed form at the end of every experience, from sums that forget nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn
from torch.utils.data import DataLoader

from rebll_avalanche.closed_form.learner import (
    Calibration,
    Keep,
    RidgeLearner,
    UnknownAs,
    Weighting,
)
from rebll_avalanche.closed_form.records import fingerprints
from rebll_avalanche.closed_form.ridge import LinearScores
from rebll_avalanche.closed_form.sums import RidgeSums
from rebll_avalanche.labels import label_matrix
from rebll_avalanche.models.windows import seen_twice
from rebll_avalanche.protocols import Experience, Strategy
from rebll_avalanche.scenario import class_range


class ClosedFormPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Replaces the rows of a linear head by a ridge regression on all images so far.

    Each experience is passed over once, in evaluation mode. An image adds to the sums of
    :class:`~rebll_avalanche.closed_form.learner.RidgeLearner` and is not kept. In a strategy that trains the
    network, the pass follows the training; earlier sums are then of earlier features.

    Args:
        unknown: What a label that nobody gave counts as, where the class was known when the image came:
            ``"negative"``: absent; ``"shrunk"``: ``shrink`` times the head's own score; ``"hard"``: 1 if
            the head so far gives it a probability above ``threshold``; ``"soft"``: that probability;
            ``"auto"``: absent if images of earlier classes are seen to come again, else ``"shrunk"``.
        threshold: For ``"hard"``.
        shrink: What the score is multiplied by.
        gamma: The ridge penalty; by default chosen by generalised cross-validation.
        per_class_gamma: Choose one for every class.
        keep: What is remembered beside the sums: ``"sums"``: nothing; ``"labels"``: a fingerprint and the
            labels of every image, so that one that comes again is not counted twice, and can be corrected
            and forgotten when it is shown again; ``"vectors"``: its features too, so that it
            need not be shown. Where every experience has all images of its classes, the head equals the one
            fitted to all labels, unless only sums are kept.
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
        unknown: UnknownAs = "auto",
        threshold: float = 0.7,
        shrink: float = 0.5,
        gamma: float | None = None,
        per_class_gamma: bool = False,
        keep: Keep = "labels",
        calibration: Calibration = "logistic",
        intercept: bool = True,
        weighting: Weighting = "equal",
    ) -> None:
        super().__init__()
        # Its vectors have the length that the head will ask for.
        self.learner = RidgeLearner(
            0,
            unknown=unknown,
            threshold=threshold,
            shrink=shrink,
            gamma=gamma,
            per_class_gamma=per_class_gamma,
            keep=keep,
            calibration=calibration,
            intercept=intercept,
            weighting=weighting,
        )
        self._keys: Sequence[int] | None = None
        self._observed = 0
        self._passed = False

    @property
    def sums(self) -> RidgeSums:
        """What is known of all images."""
        return self.learner.sums

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Make room for the classes of the experience."""
        head: Any = strategy.model.head
        if getattr(head, "weight", None) is None or getattr(head, "bias", None) is None:
            raise ValueError(
                f"{type(head).__name__} has no rows that a regression could solve; "
                "use head='linear', 'expanded' or 'random'"
            )
        if not self.sums.images:
            self.learner = RidgeLearner(head.in_features, **self.learner.options)
        self._seen = class_range(strategy.experience)[1]
        labels = label_matrix(strategy.experience.dataset)[:, : self._seen]
        number = int(strategy.experience.current_experience)
        self.learner.begin(labels, number=number, combine=seen_twice)
        self._keys = getattr(strategy.experience, "image_keys", None)
        self._observed = 0
        self._passed = False

    @torch.no_grad()
    def observe(self, model: Any, images: Tensor, targets: Tensor) -> Tensor:
        """Add a batch to the sums; the model must be in evaluation mode.

        Returns:
            The logits of the batch before the head is solved anew.
        """
        self._passed = True
        vectors = expanded(model.head, model.features(images))
        logits: Tensor = nn.functional.linear(vectors, model.head.weight, model.head.bias)
        places = None
        if self.learner.options["calibration"] == "logistic" and model.has_windows(images):
            of_places = expanded(model.head, model.features(images.flatten(0, 1)))
            places = of_places.unflatten(0, images.shape[:2]).cpu()
        names = None if self.learner.records is None else self._names(images)
        self.learner.observe(vectors.cpu(), targets[:, : self._seen].cpu(), names, places)
        return logits

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Pass over the experience, unless the strategy has done so, and solve."""
        if not self._passed:
            self._pass_over(strategy)
        self.learner.end()
        self.install(strategy.model.head)

    def scores(self) -> LinearScores:
        """The solved head in float64; its scores are log-odds unless ``calibration="none"``."""
        return self.learner.solve()

    def install(self, head: Any) -> None:
        """Write the solved rows into a model's head, as at the end of every experience."""
        scores = self.scores()
        with torch.no_grad():
            head.weight.copy_(scores.weight.T)
            head.bias.copy_(scores.bias)

    def correct(self, model: Any, images: Tensor, labels: Tensor) -> None:
        """Change labels of images that were learned before, or add labels, and solve again.

        Args:
            model: The strategy's, whose head is written anew.
            images: As in evaluation, a batch of what the model takes.
            labels: ``[images, classes]``: 1, 0, or NaN for what stays as it is.
        """
        self.learner.correct(fingerprints(images), labels, self._vectors(model, images))
        self.install(model.head)

    def forget_images(self, model: Any, images: Tensor) -> None:
        """Solve again as if these images had never come.

        Args:
            model: The strategy's, whose head is written anew.
            images: As in evaluation, a batch of what the model takes.
        """
        self.learner.forget_images(fingerprints(images), self._vectors(model, images))
        self.install(model.head)

    def forget_classes(self, model: Any, columns: Sequence[int]) -> None:
        """Solve again as if nobody had ever given a label of these classes; columns stay where they are."""
        self.learner.forget_classes(columns)
        self.install(model.head)

    def forget_experience(self, model: Any, experience: Experience) -> None:
        """Solve again as if an experience had never come.

        Args:
            model: The strategy's, whose head is written anew.
            experience: The experience, whose images are passed over once more, or, with
                ``keep="vectors"``, its number.
        """
        if isinstance(experience, int):
            self.learner.forget_experience(experience)
        else:
            names: dict[int, Tensor] = {}
            for images, *_ in in_order(experience.dataset.eval(), batch_size=64):
                names |= zip(fingerprints(images), self._vectors(model, images), strict=True)
            number = int(experience.current_experience)
            self.learner.forget_experience(number, list(names), torch.stack(list(names.values())))
        self.install(model.head)

    def merge(self, model: Any, other: ClosedFormPlugin) -> None:
        """Learn what another plugin has learned with the same network and the same order of classes.

        Args:
            model: The strategy's, whose head is written anew.
            other: Stays as it is.
        """
        self.learner.merge(other.learner)
        model.head.grow(self.learner.num_classes)
        self.install(model.head)

    @property
    def num_bytes(self) -> int:
        """Size of everything that is kept between experiences."""
        return self.learner.num_bytes

    def state_dict(self) -> dict[str, Any]:
        """All that is kept between experiences; see ``keep``."""
        return self.learner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        self.learner.load_state_dict(state)

    def _names(self, images: Tensor) -> list[int]:
        """What tells the images of a batch apart: the experience's own keys, which come in its order."""
        if self._keys is None:
            return fingerprints(images)
        start, self._observed = self._observed, self._observed + len(images)
        return list(self._keys[start : self._observed])

    def _vectors(self, model: Any, images: Tensor) -> Tensor:
        """What the head sees of images."""
        device, training = model.head.weight.device, model.training
        model.eval()
        with torch.no_grad():
            vectors = expanded(model.head, model.features(images.to(device))).cpu()
        model.train(training)
        return vectors

    def _pass_over(self, strategy: Strategy) -> None:
        model, training = strategy.model, strategy.model.training
        model.eval()
        for batch in in_order(strategy.experience.dataset.eval(), strategy.eval_mb_size):
            self.observe(model, batch[0].to(strategy.device), batch[1])
        model.train(training)


def expanded(head: Any, feature_map: Tensor) -> Tensor:
    """The vectors that a linear head sees."""
    if hasattr(head, "expand"):
        vectors: Tensor = head.expand(feature_map)
        return vectors
    return feature_map.mean(dim=(2, 3)) if feature_map.ndim == 4 else feature_map


def in_order(dataset: Any, batch_size: int) -> DataLoader[Any]:
    """Batches of a data set in its own order, drawing nothing from the global generator."""
    return DataLoader(dataset, batch_size=batch_size, generator=torch.Generator())
