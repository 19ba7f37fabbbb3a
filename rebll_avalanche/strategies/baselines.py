"""Bounds, and Avalanche's own strategies, on partial labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin, SupervisedPlugin
from avalanche.training.storage_policy import ExemplarsBuffer, ReservoirSamplingBuffer
from avalanche.training.supervised import GEM
from avalanche.training.templates import SupervisedTemplate
from torch import nn
from torch.optim import Optimizer

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.plugins.agem import DrawingAGEMPlugin
from rebll_avalanche.plugins.buffer import SharedBudgetPlugin
from rebll_avalanche.plugins.si import CopyingSIPlugin
from rebll_avalanche.strategies.loader import in_batches

Evaluator: TypeAlias = "EvaluationPlugin | Callable[[], EvaluationPlugin]"


class FineTuning(SupervisedTemplate):
    """Learns each experience's labels and does nothing about the earlier ones: equation (1) alone.

    .. math:: L = L_{bce}(C^t)

    Old columns are unknown (NaN) in the targets, so they get no gradient of their own and change only
    through the shared backbone. On a stream with all labels in one experience this is Joint. Other
    methods of this package build on it: it has the arguments that all of them share.

    Args:
        model: Any network whose columns are in order of learning; ``build_model(...)`` makes one.
        optimizer: See :func:`~rebll_avalanche.plugins.schedule.build_optimizer` for a safe one.
        criterion: Must ignore NaN labels.
        train_mb_size: Images per training batch.
        train_epochs: Passes over each experience.
        eval_mb_size: Images per evaluation batch; as in training if not given.
        device: Where to train.
        plugins: Further plugins; the list itself is left alone.
        evaluator: Metrics and loggers, or a function that makes them.
        eval_every: See Avalanche: -1 never, 0 after each experience, n every n epochs.
        peval_mode: See Avalanche: ``"epoch"`` or ``"iteration"``.
    """

    dataloader: Any

    def __init__(
        self,
        *,
        model: nn.Module,
        optimizer: Optimizer,
        criterion: nn.Module | None = None,
        train_mb_size: int = 64,
        train_epochs: int = 1,
        eval_mb_size: int | None = None,
        device: str | torch.device = "cpu",
        plugins: Sequence[SupervisedPlugin] | None = None,
        evaluator: Evaluator = multilabel_evaluator,
        eval_every: int = -1,
        peval_mode: str = "epoch",
    ) -> None:
        super().__init__(
            model=model,
            optimizer=optimizer,
            criterion=PartialLabelBCE() if criterion is None else criterion,
            train_mb_size=train_mb_size,
            train_epochs=train_epochs,
            eval_mb_size=eval_mb_size,
            device=device,
            plugins=list(plugins or []),
            evaluator=evaluator,
            eval_every=eval_every,
            peval_mode=peval_mode,
        )

    def make_eval_dataloader(self, **kwargs: Any) -> None:
        """Avalanche's own, reading batches instead of samples where the data set can."""
        super().make_eval_dataloader(**kwargs)
        self.dataloader = in_batches(self.dataloader)


def adopt(
    strategy: Callable[..., Any],
    *,
    criterion: nn.Module | None = None,
    train_mb_size: int = 64,
    eval_mb_size: int | None = None,
    plugins: Sequence[SupervisedPlugin] | None = None,
    evaluator: Evaluator = multilabel_evaluator,
    **options: Any,
) -> Any:
    """One of Avalanche's own strategies, unmodified, with defaults that suit partial labels.

    Args:
        strategy: A strategy class of Avalanche, such as ``Replay``.
        criterion: Must ignore NaN labels.
        train_mb_size: Images per training batch.
        eval_mb_size: Images per evaluation batch; as in training if not given.
        plugins: Further plugins. Avalanche appends to the list it is given, so it gets a copy.
        evaluator: Metrics and loggers, or a function that makes them.
        **options: Everything else that the strategy takes.
    """
    return strategy(
        criterion=PartialLabelBCE() if criterion is None else criterion,
        train_mb_size=train_mb_size,
        eval_mb_size=train_mb_size if eval_mb_size is None else eval_mb_size,
        plugins=list(plugins or []),
        evaluator=evaluator,
        **options,
    )


def adopt_gem(
    *, mem_size: int = 40, plugins: Sequence[SupervisedPlugin] | None = None, **options: Any
) -> Any:
    """Avalanche's ``GEM`` with one budget for all experiences.

    Args:
        mem_size: Number of images kept when the whole stream has been seen.
        plugins: Further plugins.
        **options: As in :func:`adopt`.
    """
    return adopt(
        GEM,
        patterns_per_exp=mem_size,
        plugins=[*(plugins or []), SharedBudgetPlugin(mem_size)],
        **options,
    )


class AveragedGEM(FineTuning):
    """Avalanche's A-GEM with one budget for all experiences: see :class:`DrawingAGEMPlugin`.

    Args:
        mem_size: Number of images kept when the whole stream has been seen.
        sample_size: Images of a reference batch.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        mem_size: int = 40,
        sample_size: int = 64,
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.agem = DrawingAGEMPlugin(mem_size, sample_size)
        own = [SharedBudgetPlugin(mem_size), self.agem]
        super().__init__(plugins=[*(plugins or []), *own], **options)


class BufferReplay(FineTuning):
    """Experience replay as in Avalanche's ``Replay``, with a buffer of one's choice.

    Memory images are put into the batches of the experience and learned with their own labels.

    Args:
        buffer: Makes an Avalanche storage policy from its size: ``ReservoirSamplingBuffer``, or
            ``partial(PolicyBuffer, policy="prs")``.
        mem_size: Number of images kept.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        buffer: Callable[[int], ExemplarsBuffer] = ReservoirSamplingBuffer,
        mem_size: int = 40,
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.replay = ReplayPlugin(mem_size, storage_policy=buffer(mem_size))
        super().__init__(plugins=[*(plugins or []), self.replay], **options)


class SynapticIntelligence(FineTuning):
    """Avalanche's SI, which as it is does nothing on a CPU: see :class:`CopyingSIPlugin`.

    Args:
        si_lambda: Strength of the penalty.
        eps: Added to the squared distance that importances are divided by.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`.
    """

    def __init__(
        self,
        *,
        si_lambda: float = 1e3,
        eps: float = 1e-7,
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.si = CopyingSIPlugin(si_lambda=si_lambda, eps=eps)
        super().__init__(plugins=[*(plugins or []), self.si], **options)
