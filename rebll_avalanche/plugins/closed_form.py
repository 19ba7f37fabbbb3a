"""Solves the head in closed form at the end of every experience, from sums over all images so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn
from torch.utils.data import DataLoader

from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.closed_form.records import fingerprints
from rebll_avalanche.closed_form.ridge import LinearScores
from rebll_avalanche.closed_form.sums import RidgeSums
from rebll_avalanche.distributed.joining import take_part
from rebll_avalanche.distributed.loading import shared
from rebll_avalanche.distributed.ranks import active, everywhere
from rebll_avalanche.labels import label_matrix
from rebll_avalanche.methods import takes_also
from rebll_avalanche.models.windows import seen_twice
from rebll_avalanche.plugins.networks import check_solvable
from rebll_avalanche.protocols import Experience, Strategy
from rebll_avalanche.scenario import class_range

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rebll_avalanche.plugins.signatures import RidgeOptions


class ClosedFormPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Replaces the rows of a linear head by a ridge regression on all images so far.

    Each experience takes one pass in evaluation mode. An image is added to the sums of
    :class:`~rebll_avalanche.closed_form.learner.RidgeLearner` and not stored. In a strategy that trains
    the network, the pass follows training; earlier sums then hold features of the earlier network.

    Args:
        **options: Parameters of ``RidgeLearner``, which documents them.

    >>> import torch
    >>> from rebll_avalanche import build_model, build_optimizer, multilabel_benchmark, run_stream
    >>> from rebll_avalanche.strategies.template import FineTuning
    >>> x, y = torch.eye(4).repeat(5, 1), torch.eye(4).repeat(5, 1)  # 20 vectors, 4 classes
    >>> model, plugin = build_model("vector", in_features=4), ClosedFormPlugin(gamma=0.1)
    >>> strategy = FineTuning(model=model, optimizer=build_optimizer(model), plugins=[plugin])
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C2"))
    >>> steps[-1].metrics["mAP"]
    1.0
    """

    @takes_also(RidgeLearner, without=("num_features",))
    def __init__(self, **options: Unpack[RidgeOptions]) -> None:
        super().__init__()
        # Recreated in the first experience, when the length of the head's input vectors is known.
        self.learner = RidgeLearner(1, **options)
        self._keys: Sequence[int] | None = None
        self._observed = 0
        self._passed = False

    @property
    def sums(self) -> RidgeSums:
        """The sums over all images."""
        return self.learner.sums

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the head, and join the distributed job, if there is one."""
        check_solvable(strategy.model, "the closed form")
        take_part(strategy)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Start the experience."""
        head: Any = strategy.model.head
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
            The logits of the batch, by the head before it is solved again.
        """
        self._passed = True
        vectors = expanded(model.head, model.features(images))
        logits: Tensor = nn.functional.linear(vectors, model.head.weight, model.head.bias)
        places = None
        if self.learner.calibration == "logistic" and model.has_windows(images):
            of_places = expanded(model.head, model.features(images.flatten(0, 1)))
            places = of_places.unflatten(0, images.shape[:2]).cpu()
        known = self.learner.records is not None
        names = fingerprints(images) if known and self._keys is None else None
        # Ranks of a job share the work of the network, and each learns from the vectors of all: sums,
        # repeated images and calibration are those of a single process.
        seen = (vectors.cpu(), targets[:, : self._seen].cpu(), names, places)
        vectors, targets, names, places = _all_ranks(seen)
        if known and self._keys is not None:  # the experience's own keys, which come in its order
            start, self._observed = self._observed, self._observed + len(vectors)
            names = list(self._keys[start : self._observed])
        self.learner.observe(vectors, targets, names, places)
        return logits

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add the experience to the sums, unless the strategy has done so, and solve."""
        if not self._passed:
            self._pass_over(strategy)
        self.learner.end()
        self.install(strategy.model.head)

    def scores(self) -> LinearScores:
        """The solved head in float64; its scores are log-odds unless ``calibration="none"``."""
        return self.learner.solve()

    def install(self, head: Any) -> None:
        """Write the solved rows into a model's head, as done after every experience."""
        scores = self.scores()
        with torch.no_grad():
            head.weight.copy_(scores.weight.T)
            head.bias.copy_(scores.bias)

    def correct(self, model: Any, images: Tensor, labels: Tensor) -> None:
        """Change or add labels of images learned before, and solve again.

        Args:
            model: The strategy's model, whose head is rewritten.
            images: A batch of model inputs with evaluation transforms.
            labels: ``[images, classes]``: 1, 0, or NaN to leave a label as it is.
        """
        self.learner.correct(fingerprints(images), labels, self._vectors(model, images))
        self.install(model.head)

    def forget_images(self, model: Any, images: Tensor) -> None:
        """Solve again as if these images had never been learned.

        Args:
            model: The strategy's model, whose head is rewritten.
            images: A batch of model inputs with evaluation transforms.
        """
        self.learner.forget_images(fingerprints(images), self._vectors(model, images))
        self.install(model.head)

    def forget_classes(self, model: Any, columns: Sequence[int]) -> None:
        """Solve again as if these classes had never been annotated; column positions do not change."""
        self.learner.forget_classes(columns)
        self.install(model.head)

    def forget_experience(self, model: Any, experience: Experience) -> None:
        """Solve again as if an experience had never been learned.

        Args:
            model: The strategy's model, whose head is rewritten.
            experience: The experience, whose images are read once more; with ``keep="vectors"`` its
                number is enough.
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
        """Add what another plugin has learned with the same network and class order.

        Args:
            model: The strategy's model, whose head is rewritten.
            other: The other plugin; it is not changed.
        """
        self.learner.merge(other.learner)
        model.head.grow(self.learner.num_classes)
        self.install(model.head)

    @property
    def num_bytes(self) -> int:
        """Size of everything that is kept between experiences."""
        return self.learner.num_bytes

    def state_dict(self) -> dict[str, Any]:
        """Everything kept between experiences; see ``keep``."""
        return self.learner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.learner.load_state_dict(state)

    def _vectors(self, model: Any, images: Tensor) -> Tensor:
        """The head's input vectors for a batch of images."""
        device, training = model.head.weight.device, model.training
        model.eval()
        with torch.no_grad():
            vectors = expanded(model.head, model.features(images.to(device))).cpu()
        model.train(training)
        return vectors

    def _pass_over(self, strategy: Strategy) -> None:
        model, training = strategy.model, strategy.model.training
        model.eval()
        loader: Any = in_order(strategy.experience.dataset.eval(), strategy.eval_mb_size)
        for batch in shared(loader) if active() else loader:
            self.observe(model, batch[0].to(strategy.device), batch[1])
        model.train(training)


def _all_ranks(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """What all ranks have seen of a batch, in the order of its images."""
    if not active():
        return parts
    columns = zip(*everywhere(parts), strict=True)
    return tuple(_chained(column) for column in columns)


def _chained(parts: tuple[Any, ...]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.cat(parts)
    return None if parts[0] is None else [entry for part in parts for entry in part]


def expanded(head: Any, feature_map: Tensor) -> Tensor:
    """The input vectors of a head's linear layer."""
    if hasattr(head, "expand"):
        vectors: Tensor = head.expand(feature_map)
        return vectors
    return feature_map.mean(dim=(2, 3)) if feature_map.ndim == 4 else feature_map


def in_order(dataset: Any, batch_size: int) -> DataLoader[Any]:
    """Batches of a data set in its own order, without using the global random generator."""
    return DataLoader(dataset, batch_size=batch_size, generator=torch.Generator())
