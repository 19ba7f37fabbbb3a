"""RebLL: asymmetric distillation and online relabelling around one teacher."""

from __future__ import annotations

from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.memory import Memory
from rebll_avalanche.plugins.akd import AKDPlugin
from rebll_avalanche.plugins.closed_form_teacher import ClosedFormTeacher
from rebll_avalanche.plugins.options import check_choice
from rebll_avalanche.plugins.relabel import OnlineRelabelPlugin
from rebll_avalanche.plugins.teacher import Teacher
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.sampling import SamplingPolicy

TEACHERS = ("previous", "closed_form")


class RebLLPlugin(SupervisedPlugin):
    r"""Drops RebLL into an Avalanche strategy.

    .. math:: L = \lambda_{akd} L_{cls} + (1 - \lambda_{akd}) L_{akd} + \lambda_{er} L_{er}

    Defaults are the paper's. ``mem_size=0`` is "RebLL (AKD)". The parameters are those of
    :class:`AKDPlugin` and :class:`OnlineRelabelPlugin`; ``exponent``, ``reduction`` and
    ``detach_weight`` hold for both. ``teacher`` is who both ask: the ``"previous"`` model, as in the
    paper, or a :class:`~rebll_avalanche.plugins.closed_form_teacher.ClosedFormTeacher`
    (``"closed_form"``).
    """

    def __init__(
        self,
        *,
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
        teacher: str = "previous",
    ) -> None:
        super().__init__()
        check_choice("teacher", teacher, TEACHERS)
        self.akd = AKDPlugin(
            alpha=alpha,
            lambda_akd=lambda_akd,
            exponent=exponent,
            teacher_targets=teacher_targets,
            reduction=reduction,
            detach_weight=detach_weight,
        )
        self.replay = OnlineRelabelPlugin(
            mem_size=mem_size,
            batch_size_mem=batch_size_mem,
            beta=beta,
            lambda_er=lambda_er,
            relabel_threshold=relabel_threshold,
            exponent=exponent,
            replay_loss=replay_loss,
            relabel=relabel,
            policy=policy,
            reduction=reduction,
            detach_weight=detach_weight,
        )
        self.replay.terms = self.akd.terms
        if teacher == "closed_form":
            self.akd.teacher = ClosedFormTeacher()
        self.replay.teacher = self.akd.teacher

    @property
    def teacher(self) -> Teacher:
        """The previous model, shared by both halves."""
        return self.akd.teacher

    @property
    def memory(self) -> Memory:
        """The images and labels that are replayed."""
        return self.replay.memory

    @property
    def terms(self) -> LossTerms:
        """The terms cls, akd and er, unweighted."""
        return self.akd.terms

    def before_training(self, strategy: Any, **kwargs: Any) -> None:
        """See both halves."""
        self.akd.before_training(strategy, **kwargs)
        self.replay.before_training(strategy, **kwargs)

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """See both halves."""
        self.akd.before_training_exp(strategy, **kwargs)
        self.replay.before_training_exp(strategy, **kwargs)

    def before_backward(self, strategy: Any, **kwargs: Any) -> None:
        """Add L_akd and L_er."""
        self.akd.before_backward(strategy, **kwargs)
        self.replay.before_backward(strategy, **kwargs)

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """See both halves."""
        self.akd.after_training_exp(strategy, **kwargs)
        self.replay.after_training_exp(strategy, **kwargs)

    def after_training(self, strategy: Any, **kwargs: Any) -> None:
        """See the distillation half."""
        self.akd.after_training(strategy, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Teacher and memory."""
        return self.replay.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        self.replay.load_state_dict(state)
