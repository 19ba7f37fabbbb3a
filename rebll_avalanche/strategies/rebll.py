"""RebLL as an Avalanche strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
from avalanche.training.templates import SupervisedTemplate
from torch import nn
from torch.optim import Optimizer

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.plugins import RebLLPlugin
from rebll_avalanche.sampling import SamplingPolicy


class RebLL(SupervisedTemplate):
    """Rebalanced learning of labels that arrive in steps.

    The method is :class:`~rebll_avalanche.plugins.RebLLPlugin`; this strategy adds what multi-label
    streams need by default: a criterion that ignores unknown labels and multi-label metrics.

    Args:
        model: Any network whose columns are in order of learning; ``build_model(...)`` makes one.
        optimizer: See :func:`~rebll_avalanche.plugins.schedule.build_optimizer` for a safe one.
        criterion: Used in evaluation; in training it is replaced by L_cls.
        mem_size: Number of images kept for replay; 0 is "RebLL (AKD)".
        batch_size_mem: This and the following, down to ``detach_weight``, are parameters of
            :class:`~rebll_avalanche.plugins.AKDPlugin` and
            :class:`~rebll_avalanche.plugins.OnlineRelabelPlugin`. They are spelled out because
            Avalanche refuses arguments that a strategy does not name.
        alpha: Strength of the down-weighting of positives.
        beta: Strength of the down-weighting of negatives in replay.
        lambda_akd: Weight of L_cls once there is a teacher; L_akd gets the rest.
        lambda_er: Weight of the replay.
        relabel_threshold: A missing label becomes 1 if the probability is above, else 0.
        exponent: ``"adaptive"`` or ``"fixed"``.
        teacher_targets: ``"printed"`` or ``"corrected"``.
        replay_loss: ``"er"`` or ``"bce"``.
        relabel: Whether missing labels of memory are filled.
        policy: Which images stay in memory.
        reduction: ``"mean"`` or ``"class_sum"``.
        detach_weight: Stop the gradient through the weights of the losses.
        train_mb_size: Images per training batch.
        train_epochs: Passes over each experience.
        eval_mb_size: Images per evaluation batch; as in training if not given.
        device: Where to train.
        plugins: Further plugins, called before this method's own.
        evaluator: Metrics and loggers, or a function that makes them.
        eval_every: See Avalanche: -1 never, 0 after each experience, n every n epochs.
        peval_mode: See Avalanche: ``"epoch"`` or ``"iteration"``.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        optimizer: Optimizer,
        criterion: nn.Module | None = None,
        mem_size: int = 40,
        batch_size_mem: int = 64,
        alpha: float = 1.2,
        beta: float = 0.7,
        lambda_akd: float = 0.15,
        lambda_er: float = 0.30,
        relabel_threshold: float = 0.5,
        exponent: str = "adaptive",
        teacher_targets: str = "printed",
        replay_loss: str = "er",
        relabel: bool = True,
        policy: str | SamplingPolicy = "reservoir",
        reduction: str = "mean",
        detach_weight: bool = False,
        train_mb_size: int = 64,
        train_epochs: int = 1,
        eval_mb_size: int | None = None,
        device: str | torch.device = "cpu",
        plugins: Sequence[SupervisedPlugin] | None = None,
        evaluator: EvaluationPlugin | Callable[[], EvaluationPlugin] = multilabel_evaluator,
        eval_every: int = -1,
        peval_mode: str = "epoch",
    ) -> None:
        self.rebll = RebLLPlugin(
            mem_size=mem_size,
            batch_size_mem=batch_size_mem,
            alpha=alpha,
            beta=beta,
            lambda_akd=lambda_akd,
            lambda_er=lambda_er,
            relabel_threshold=relabel_threshold,
            exponent=exponent,
            teacher_targets=teacher_targets,
            replay_loss=replay_loss,
            relabel=relabel,
            policy=policy,
            reduction=reduction,
            detach_weight=detach_weight,
        )
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
