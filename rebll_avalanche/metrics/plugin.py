"""Multi-label metrics for Avalanche's evaluator."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypedDict, get_args

import torch
from avalanche.evaluation import PluginMetric
from avalanche.evaluation.metric_results import MetricValue
from avalanche.logging import BaseLogger
from avalanche.training.plugins import EvaluationPlugin
from torch import Tensor

from rebll_avalanche.compatibility import check_compatibility, check_labelled
from rebll_avalanche.distributed.joining import take_part
from rebll_avalanche.distributed.ranks import active, everywhere
from rebll_avalanche.labels import UNKNOWN, check_criterion
from rebll_avalanche.metrics.functional import Ties, check_thresholds, multilabel_scores
from rebll_avalanche.metrics.history import StepHistory
from rebll_avalanche.metrics.keys import metric_key
from rebll_avalanche.metrics.loss import delayed_loss_metrics
from rebll_avalanche.metrics.scores import MultiLabelScores
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.words import brief, check_choice, check_class_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One complete evaluation: scores, ground truth and metrics.

    Attributes:
        stream: The name of the stream, such as ``test``.
        experiences: The numbers of the evaluated experiences, in order.
        scores: Probabilities, float32 ``[samples, classes]`` on the CPU.
        truth: The same shape; 1 present, 0 absent, NaN not annotated.
        metrics: All metrics, including those per class.
    """

    stream: str
    experiences: tuple[int, ...]
    scores: Tensor
    truth: Tensor
    metrics: MultiLabelScores


class MetricOptions(TypedDict, total=False):
    """Parameters of :class:`MultiLabelMetrics`."""

    thresholds: Sequence[float]
    per_class: bool
    experience: bool
    class_names: Sequence[str] | None
    ties: Ties


@dataclass(kw_only=True, eq=False, repr=False)
class MultiLabelMetrics(PluginMetric):
    """All multi-label metrics of an evaluation, from scores collected once.

    Emits mAP, CP, CR, CF1, OP, OR, OF1 and FPR, and average mAP and forgetting over the steps so far
    (see :class:`~rebll_avalanche.metrics.history.StepHistory`). Before training on an experience, it
    refuses a criterion that would turn unknown labels into NaN weights.

    Args:
        thresholds: Probabilities above which a class counts as predicted; the literature uses 0.8.
        per_class: Also emit the AP of each class that has positives.
        experience: Also score each experience of an evaluation on its own.
        class_names: Names in order of learning for the keys of ``per_class``; by default, numbers.
        ties: See :func:`~rebll_avalanche.metrics.functional.average_precision`.

    Attributes:
        last: The last :class:`Evaluation`, or None.
        history: Results of each step; part of :meth:`state_dict`.
    """

    thresholds: Sequence[float] = (0.8, 0.5)
    per_class: bool = False
    experience: bool = False
    class_names: Sequence[str] | None = None
    ties: Ties = "sklearn"

    def __post_init__(self) -> None:
        super().__init__()
        check_thresholds(self.thresholds)
        check_choice("ties", self.ties, get_args(Ties))
        check_class_names(self.class_names)
        for threshold in self.thresholds:
            if not 0 <= threshold <= 1:
                raise ValueError(f"thresholds must lie between 0 and 1, got {threshold}")
        self.thresholds = tuple(self.thresholds)
        self.last: Evaluation | None = None
        self.history = StepHistory()
        self._labels_unchecked = False
        self._batches: list[tuple[Tensor, Tensor]] = []
        self._parts: list[tuple[int, Tensor, Tensor]] = []
        self._warned: set[tuple[str, tuple[int, ...]]] = set()

    def __str__(self) -> str:
        return "MultiLabelMetrics"

    def reset(self) -> None:
        """Drop the batches collected so far; the history of steps is kept."""
        self._batches, self._parts = [], []

    def result(self) -> dict[str, float]:
        """The metrics of the last evaluation by plain name; empty before the first."""
        if self.last is None:
            return {}
        return self._values(self.last.metrics) | self.history.values(self.last.stream)

    def state_dict(self) -> dict[str, Any]:
        """The history of steps, which a resumed run needs for average mAP and forgetting."""
        return self.history.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.history.load_state_dict(state)

    def before_training(self, strategy: Strategy) -> None:
        """Refuse plugins that cannot learn from label vectors, and reopen the step."""
        check_compatibility(strategy)
        take_part(strategy)
        self.history.training_goes_on()

    def before_training_exp(self, strategy: Strategy) -> None:
        """Refuse a loss that does not ignore unknown labels, before the first update."""
        self.history.training_goes_on()
        dataset = strategy.experience.dataset
        self._labels_unchecked = getattr(dataset, "targets", None) is None
        if not self._labels_unchecked:
            check_criterion(
                strategy._criterion, dataset, getattr(strategy.model, "num_classes", None)
            )
            check_labelled(strategy)

    def before_training_iteration(self, strategy: Strategy) -> None:
        """Check the first batch of a data set whose labels cannot be read without loading images."""
        self.history.training_goes_on()
        if self._labels_unchecked:
            check_criterion(strategy._criterion, SimpleNamespace(targets=strategy.mb_y))
            self._labels_unchecked = False

    def after_training_exp(self, strategy: Strategy) -> list[MetricValue]:
        """Complete the step."""
        emitted = []
        for stream in self.history.training_ended(strategy.experience.current_experience):
            emitted += self._emit(self.history.values(stream), strategy, stream)
        return emitted

    def before_eval(self, strategy: Strategy) -> None:
        """Start afresh."""
        take_part(strategy)
        self.reset()

    def after_eval_iteration(self, strategy: Strategy) -> None:
        """Keep the batch on its device, without waiting for it."""
        logits, targets = strategy.mb_output, strategy.mb_y
        if logits.ndim != 2 or targets.ndim != 2:
            raise ValueError(
                "multi-label metrics need logits and targets of [batch, classes], "
                f"got {tuple(logits.shape)} and {tuple(targets.shape)}"
            )
        # A head that has not grown to all classes yet is evaluated on the columns it has.
        width = min(logits.shape[1], targets.shape[1])
        scores = torch.sigmoid(logits.detach()[:, :width].float())
        self._batches.append((scores, targets.detach()[:, :width].float()))

    def after_eval_exp(self, strategy: Strategy) -> list[MetricValue]:
        """End an experience and, if requested, compute its own metrics."""
        if not self._batches:
            return []
        batches = self._all_batches()
        scores, truth = (torch.cat(parts).cpu() for parts in zip(*batches, strict=True))
        self._batches = []
        number = strategy.experience.current_experience
        self._parts.append((number, scores, truth))
        if not self.experience:
            return []
        values = self._values(multilabel_scores(scores, truth, self.thresholds, ties=self.ties))
        return self._emit(values, strategy, strategy.experience.origin_stream.name, number)

    def _all_batches(self) -> list[tuple[Tensor, Tensor]]:
        """The batches, in the order of their images, from the parts that the ranks have seen."""
        if not active():
            return self._batches
        parts = everywhere([(scores.cpu(), truth.cpu()) for scores, truth in self._batches])
        return [part for batch in zip(*parts, strict=True) for part in batch]

    def after_eval(self, strategy: Strategy) -> list[MetricValue]:
        """Compute the metrics of all experiences of this evaluation together."""
        if not self._parts:
            return []
        numbers, scores, truth = zip(*self._parts, strict=True)
        self._parts = []
        width = max(part.shape[1] for part in scores)
        all_scores = torch.cat([_widen(part, width, 0.0) for part in scores])
        all_truth = torch.cat([_widen(part, width, UNKNOWN) for part in truth])
        metrics = multilabel_scores(all_scores, all_truth, self.thresholds, ties=self.ties)

        origin = strategy.experience.origin_stream
        self.last = Evaluation(origin.name, numbers, all_scores, all_truth, metrics)
        self._name_classes_without_positives(self.last)
        only_one = isinstance(origin, Sized) and len(origin) == 1
        values = self._values(metrics)
        # Test sets of later steps contain those of earlier ones; their union is not a test set.
        one_step = len(numbers) == 1
        shown = None if only_one else numbers
        if one_step and self.history.add(origin.name, shown, metrics.average_precision):
            values |= self.history.values(origin.name)
        return self._emit(values, strategy, origin.name)

    def _values(self, metrics: MultiLabelScores) -> dict[str, float]:
        values = metrics.as_dict()
        if self.per_class:
            for column, value in enumerate(metrics.average_precision.tolist()):
                if value == value:
                    values[f"AP_{self._class_name(column)}"] = value
        return values

    def _emit(
        self,
        values: dict[str, float],
        strategy: Strategy,
        stream: str,
        experience: int | None = None,
    ) -> list[MetricValue]:
        position = strategy.clock.train_iterations
        return [
            MetricValue(self, metric_key(name, stream, experience), value, position)
            for name, value in values.items()
        ]

    def _class_name(self, column: int) -> str:
        return f"{column:03}" if self.class_names is None else self.class_names[column]

    def _name_classes_without_positives(self, evaluation: Evaluation) -> None:
        case = evaluation.stream, evaluation.metrics.without_positives
        if case[1] and case not in self._warned:
            self._warned.add(case)
            _LOGGER.warning(
                "The %s stream has no positive sample of class %s: no AP, left out of mAP",
                case[0],
                ", ".join(self._class_name(column) for column in case[1]),
            )


def multilabel_metrics(**options: Unpack[MetricOptions]) -> list[PluginMetric]:
    """The metrics of the multi-label field for an Avalanche ``EvaluationPlugin``.

    Keys look like ``mAP_Stream/eval_phase/test_stream`` and ``CF1@0.8_Stream/eval_phase/test_stream``;
    :func:`read_metrics` reads them back by plain name. Values are fractions.

    Args:
        **options: ``thresholds`` above which a class counts as predicted (0.8 and 0.5); ``per_class``
            and ``experience`` for more keys; ``class_names``; ``ties``. See
            :class:`~rebll_avalanche.metrics.MultiLabelMetrics`.

    >>> from avalanche.training.plugins import EvaluationPlugin
    >>> evaluator = EvaluationPlugin(*multilabel_metrics(thresholds=(0.5,)), loggers=[])
    >>> [str(metric) for metric in evaluator.metrics]
    ['MultiLabelMetrics']
    """
    return [MultiLabelMetrics(**options)]


def multilabel_evaluator(
    *metrics: PluginMetric | Sequence[PluginMetric],
    loss: bool = True,
    loggers: BaseLogger | Sequence[BaseLogger] | Callable[[], Sequence[BaseLogger]] = (),
    **options: Unpack[MetricOptions],
) -> EvaluationPlugin:
    """Build an evaluator with multi-label metrics and the loss, silent unless loggers are given.

    Args:
        *metrics: Further Avalanche metrics, such as ``timing_metrics(epoch=True)``.
        loss: Include the loss, per training epoch and per evaluation.
        loggers: As for ``EvaluationPlugin``.
        **options: See :func:`multilabel_metrics`.

    >>> import torch
    >>> from rebll_avalanche import RebLL, build_model, build_optimizer, multilabel_benchmark, read_metrics
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> model, evaluator = build_model("vector", in_features=4), multilabel_evaluator(thresholds=(0.5,))
    >>> strategy = RebLL(model=model, optimizer=build_optimizer(model), evaluator=evaluator)
    >>> benchmark = multilabel_benchmark((x, y), (x, y), "B2-C2")
    >>> losses = strategy.train(benchmark.train_stream[0])
    >>> found = read_metrics(strategy.eval([benchmark.test_stream[0]]))
    >>> {"mAP", "CF1@0.5", "OF1@0.5", "FPR@0.5"} <= found.keys()
    True
    """
    own = multilabel_metrics(**options)
    for metric in metrics:
        for part in metric if isinstance(metric, list | tuple) else [metric]:
            if not isinstance(part, PluginMetric):
                raise TypeError(
                    f"metrics must be Avalanche's, such as loss_metrics(), got {brief(part)}"
                )
    if not callable(loggers):
        for logger in loggers if isinstance(loggers, list | tuple) else [loggers]:
            if not isinstance(logger, BaseLogger):
                raise TypeError(f"loggers must be Avalanche's, got {brief(logger)}")
    losses = delayed_loss_metrics() if loss else []
    with warnings.catch_warnings():
        # strategy.eval returns the results, so loggers are optional.
        warnings.filterwarnings("ignore", message="No loggers specified")
        return EvaluationPlugin(own, losses, *metrics, loggers=loggers)


def multilabel_metric(evaluator: EvaluationPlugin) -> MultiLabelMetrics:
    """The :class:`MultiLabelMetrics` of an evaluator, whose state is saved in checkpoints."""
    for metric in getattr(evaluator, "metrics", ()):
        if isinstance(metric, MultiLabelMetrics):
            return metric
    raise ValueError(
        "the evaluator has no multi-label metrics; make it with multilabel_evaluator() or "
        "EvaluationPlugin(multilabel_metrics(), ...)"
    )


def last_evaluation(evaluator: EvaluationPlugin) -> Evaluation:
    """Scores, truth and per-class metrics of the last ``strategy.eval``.

    >>> import torch
    >>> from rebll_avalanche import RebLL, build_model, build_optimizer, multilabel_benchmark, run_stream
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> model = build_model("vector", in_features=4)
    >>> strategy = RebLL(model=model, optimizer=build_optimizer(model))
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C2"))
    >>> evaluation = last_evaluation(strategy.evaluator)
    >>> evaluation.scores.shape, len(evaluation.metrics.average_precision)
    (torch.Size([8, 4]), 4)
    """
    evaluation = multilabel_metric(evaluator).last
    if evaluation is None:
        raise ValueError("there has been no evaluation yet; call strategy.eval(...) first")
    return evaluation


def _widen(part: Tensor, width: int, fill: float) -> Tensor:
    return torch.nn.functional.pad(part, (0, width - part.shape[1]), value=fill)
