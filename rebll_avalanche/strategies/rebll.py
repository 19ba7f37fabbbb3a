"""RebLL as an Avalanche strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.memory.sampling import SamplingPolicy
from rebll_avalanche.plugins import RebLLPlugin
from rebll_avalanche.strategies.baselines import FineTuning


class RebLL(FineTuning):
    """Rebalanced learning of labels that arrive in steps.

    The method is :class:`~rebll_avalanche.plugins.RebLLPlugin`; this strategy adds what multi-label
    streams need by default: a criterion that ignores unknown labels and multi-label metrics.

    Args:
        preset: ``"paper"`` or ``"best"``: where parameters have their values from that are not given.
        mem_size: Number of images kept for replay (40 in the paper); 0 is "RebLL (AKD)".
        batch_size_mem: This and the following, down to ``detach_weight``, are parameters of
            :class:`~rebll_avalanche.plugins.AKDPlugin` and
            :class:`~rebll_avalanche.plugins.OnlineRelabelPlugin`. They are spelled out because
            Avalanche refuses arguments that a strategy does not name.
        alpha: Strength of the down-weighting of positives.
        beta: Strength of the down-weighting of negatives in replay.
        lambda_akd: Weight of L_cls once there is a teacher; L_akd gets the rest.
        lambda_er: Weight of the replay.
        lambda_new: Weight of the new classes' absence from memory.
        relabel_threshold: A missing label becomes 1 if the probability is above, else 0; 0.8 unless said
            (0.5 in the best preset). The paper does not give it.
        exponent: ``"adaptive"`` or ``"fixed"``.
        teacher_targets: ``"printed"`` or ``"corrected"``.
        replay_loss: ``"er"`` or ``"bce"``.
        relabel: Whether missing labels of memory are filled.
        relabel_by: How: ``"score"``, ``"posterior"``, ``"prevalence"``, ``"soft"`` or ``"adaptive"``.
        policy: Which images stay in memory.
        reduction: ``"mean"`` or ``"class_sum"``.
        detach_weight: Stop the gradient through the weights of the losses.
        teacher: Who is distilled and who relabels: the ``"previous"`` model, or a ``"closed_form"``
            head that does not forget
            (:class:`~rebll_avalanche.plugins.closed_form_teacher.ClosedFormTeacher`).
        start_from_teacher: Begin every experience with the teacher's rows of the head.
        plugins: Further plugins, called before this method's own.
        **options: As in :class:`FineTuning`: ``model``, ``optimizer``, ``train_mb_size`` ...; its
            ``criterion`` is used in evaluation only, in training it is replaced by L_cls.
    """

    def __init__(
        self,
        *,
        preset: str = "paper",
        mem_size: int | None = None,
        batch_size_mem: int | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        lambda_akd: float | None = None,
        lambda_er: float | None = None,
        lambda_new: float | None = None,
        relabel_threshold: float | None = None,
        exponent: str | None = None,
        teacher_targets: str | None = None,
        replay_loss: str | None = None,
        relabel: bool | None = None,
        relabel_by: str | None = None,
        policy: str | SamplingPolicy | None = None,
        reduction: str | None = None,
        detach_weight: bool | None = None,
        teacher: str | None = None,
        start_from_teacher: bool | None = None,
        plugins: Sequence[SupervisedPlugin] | None = None,
        **options: Any,
    ) -> None:
        self.rebll = RebLLPlugin(
            preset=preset,
            mem_size=mem_size,
            batch_size_mem=batch_size_mem,
            alpha=alpha,
            beta=beta,
            lambda_akd=lambda_akd,
            lambda_er=lambda_er,
            lambda_new=lambda_new,
            relabel_threshold=relabel_threshold,
            exponent=exponent,
            teacher_targets=teacher_targets,
            replay_loss=replay_loss,
            relabel=relabel,
            relabel_by=relabel_by,
            policy=policy,
            reduction=reduction,
            detach_weight=detach_weight,
            teacher=teacher,
            start_from_teacher=start_from_teacher,
        )
        super().__init__(plugins=[*(plugins or []), self.rebll], **options)
