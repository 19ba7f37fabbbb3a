"""Asymmetric knowledge distillation: the loss half of RebLL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from rebll_avalanche.arguments import check_number
from rebll_avalanche.labels import seen_columns, where_unknown
from rebll_avalanche.losses import akd_loss, cls_loss, posterior_from_score, probability
from rebll_avalanche.plugins.criterion import check_steerable, install_criterion, restore_criterion
from rebll_avalanche.plugins.options import Exponent, Reduction, check_not_negative, decay_exponent
from rebll_avalanche.plugins.teacher import TaughtPlugin
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import class_range
from rebll_avalanche.words import check_choice

TeacherTargets = Literal["printed", "corrected"]


@dataclass(kw_only=True, eq=False)
class AKDPlugin(TaughtPlugin, supports_distributed=True):  # type: ignore[call-arg]
    r"""Trains with :math:`\lambda L_{cls} + (1 - \lambda) L_{akd}` (equations 3 to 6).

    The base term of the strategy becomes L_cls over the annotated labels; L_akd distils the previous
    model on classes of earlier experiences that are not annotated in an image. In the first experience,
    without a teacher, the loss is L_cls alone. Arguments give the rows of the paper's ablation:
    ``alpha=0`` is L_bce + L_kd, ``lambda_akd=1`` is L_cls alone, ``exponent="fixed"`` the constant
    factor.

    Args:
        alpha: Strength of the down-weighting of positives.
        lambda_akd: Weight of L_cls once there is a teacher; L_akd gets the rest.
        exponent: ``"adaptive"``: alpha log(seen classes); ``"fixed"``: alpha itself.
        teacher_targets: ``"printed"`` distils the teacher's probabilities; ``"corrected"`` distils
            the posteriors for which these probabilities minimise this loss, so that scores do not
            shrink at every experience.
        reduction: ``"mean"`` over each term's classes, or ``"class_sum"`` as printed.
        detach_weight: Stop the gradient through the weight ``(1 - p)^g``.

    >>> import torch
    >>> from rebll_avalanche import build_model, build_optimizer, multilabel_benchmark, run_stream
    >>> from rebll_avalanche.strategies.template import FineTuning
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> model, akd = build_model("vector", in_features=4), AKDPlugin(alpha=0.6)
    >>> strategy = FineTuning(model=model, optimizer=build_optimizer(model), plugins=[akd])
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C2"))
    >>> akd.distils, akd.old_classes  # in the second experience
    (True, 2)
    """

    alpha: float = 1.2
    lambda_akd: float = 0.15
    exponent: Exponent = "adaptive"
    teacher_targets: TeacherTargets = "printed"
    reduction: Reduction = "mean"
    detach_weight: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        check_not_negative(alpha=self.alpha)
        check_number("lambda_akd", self.lambda_akd, 0, 1)
        check_choice("exponent", self.exponent, get_args(Exponent))
        check_choice("teacher_targets", self.teacher_targets, get_args(TeacherTargets))
        check_choice("reduction", self.reduction, get_args(Reduction))
        self.terms = LossTerms()
        self._exponent_now = 0.0
        self._cls_now = torch.zeros(())

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the strategy, and share one teacher with the other plugins."""
        check_steerable(strategy, self)
        super().before_training(strategy, **kwargs)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Set the exponent for the number of seen classes and install L_cls as the base term."""
        super().before_training_exp(strategy, **kwargs)
        _, seen = class_range(strategy.experience)
        self._exponent_now = decay_exponent(self.exponent, self.alpha, seen)
        install_criterion(strategy, self._base_loss)

    def _base_loss(self, logits: Tensor, targets: Tensor, reduction: str) -> Tensor:
        loss = cls_loss(
            logits,
            seen_columns(logits, targets),
            exponent=self._exponent_now,
            detach_weight=self.detach_weight,
            reduction=self.reduction if reduction == "mean" else reduction,
        )
        self._cls_now = loss.detach()
        return self.lambda_akd * loss if self.distils else loss

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add L_akd."""
        # Recorded here because other plugins may also call the criterion.
        self.terms.record("cls", self._cls_now)
        if not self.distils or self.lambda_akd == 1:
            return
        teacher_logits, logits = self.old_logits(strategy)
        target = probability(teacher_logits)
        if self.teacher_targets == "corrected":
            target = posterior_from_score(
                target, self._exponent_now, detach_weight=self.detach_weight
            )
        loss = akd_loss(
            logits,
            where_unknown(target, strategy.mb_y),
            exponent=self._exponent_now,
            detach_weight=self.detach_weight,
            reduction=self.reduction,
        )
        self.terms.record("akd", loss)
        strategy.loss += (1 - self.lambda_akd) * loss

    def after_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Restore the strategy's own criterion."""
        restore_criterion(strategy)
