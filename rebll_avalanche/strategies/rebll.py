"""RebLL as an Avalanche strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
from avalanche.training.templates import SupervisedTemplate
from torch import nn
from torch.optim import Optimizer

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.plugins import RebLLPlugin


class RebLL(SupervisedTemplate):
    """Rebalanced learning of labels that arrive in steps.

    The method is :class:`~rebll_avalanche.plugins.RebLLPlugin`; this strategy adds what multi-label
    streams need by default: a criterion that ignores unknown labels and multi-label metrics.

    Args:
        model: Any network whose columns are in order of learning; ``build_model(...)`` makes one.
        optimizer: See :func:`~rebll_avalanche.plugins.schedule.build_optimizer` for a safe one.
        criterion: Used in evaluation; in training it is replaced by L_cls.
        mem_size: Number of images kept for replay; 0 is "RebLL (AKD)".
        train_mb_size: Images per training batch.
        train_epochs: Passes over each experience.
        eval_mb_size: Images per evaluation batch; as in training if not given.
        device: Where to train.
        plugins: Further plugins, called before this method's own.
        evaluator: Metrics and loggers, or a function that makes them.
        eval_every: See Avalanche: -1 never, 0 after each experience, n every n epochs.
        peval_mode: See Avalanche: ``"epoch"`` or ``"iteration"``.
        method_options: Further parameters of the plugin, by name: ``alpha``, ``beta``,
            ``lambda_akd``, ``lambda_er``, ``relabel_threshold``, ``exponent``, ``replay_loss`` ...
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        optimizer: Optimizer,
        criterion: nn.Module | None = None,
        mem_size: int = 40,
        train_mb_size: int = 64,
        train_epochs: int = 1,
        eval_mb_size: int | None = None,
        device: str | torch.device = "cpu",
        plugins: Sequence[SupervisedPlugin] | None = None,
        evaluator: EvaluationPlugin | Callable[[], EvaluationPlugin] = multilabel_evaluator,
        eval_every: int = -1,
        peval_mode: str = "epoch",
        **method_options: Any,
    ) -> None:
        self.rebll = RebLLPlugin(mem_size=mem_size, **method_options)
        super().__init__(
            model=model,
            optimizer=optimizer,
            criterion=PartialLabelBCE() if criterion is None else criterion,
            train_mb_size=train_mb_size,
            train_epochs=train_epochs,
            eval_mb_size=eval_mb_size,
            device=device,
            plugins=[*(plugins or []), self.rebll],
            evaluator=evaluator,
            eval_every=eval_every,
            peval_mode=peval_mode,
        )
