"""RebLL: asymmetric distillation and online relabelling around one teacher."""

from __future__ import annotations

from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.memory import Memory
from rebll_avalanche.memory.sampling import SamplingPolicy
from rebll_avalanche.plugins.akd import AKDPlugin
from rebll_avalanche.plugins.closed_form_teacher import ClosedFormTeacher
from rebll_avalanche.plugins.relabel import OnlineRelabelPlugin
from rebll_avalanche.plugins.teacher import Teacher
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.words import check_choice

TEACHERS = ("previous", "closed_form")

# Who teaches, and what differs from the defaults of the two halves, which are the paper's.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"teacher": "previous", "start_from_teacher": False},
    "best": {
        "teacher": "closed_form",
        "start_from_teacher": True,
        "alpha": 0.0,
        "lambda_new": 0.3,
        "policy": "prs",
        "relabel_threshold": 0.5,  # as it was chosen: this teacher's probabilities are calibrated
    },
}


class RebLLPlugin(SupervisedPlugin):
    r"""Drops RebLL into an Avalanche strategy.

    .. math:: L = \lambda_{akd} L_{cls} + (1 - \lambda_{akd}) L_{akd} + \lambda_{er} L_{er}

    ``mem_size=0`` is "RebLL (AKD)". The parameters are those of :class:`AKDPlugin` and
    :class:`OnlineRelabelPlugin`, which also say what they mean; ``exponent``, ``reduction`` and
    ``detach_weight`` hold for both. What is not given is as the preset says.

    Args:
        preset: ``"paper"``, the values of these two classes, or ``"best"``, what won on validation
            images (see :data:`PRESETS`).
        teacher: Who distils and relabels: the ``"previous"`` model, as in the paper, or a
            :class:`~rebll_avalanche.plugins.closed_form_teacher.ClosedFormTeacher`
            (``"closed_form"``).
        start_from_teacher: Begin every experience with the teacher's rows of the head. Those of the
            previous model are there already; from a closed-form teacher the student takes over what it
            has forgotten itself, and the new classes as the teacher sees them.
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
    ) -> None:
        super().__init__()
        check_choice("preset", preset, tuple(PRESETS))
        own = _chosen(preset, {"teacher": teacher, "start_from_teacher": start_from_teacher})
        check_choice("teacher", own["teacher"], TEACHERS)
        self.start_from_teacher = bool(own["start_from_teacher"])
        shared = {"exponent": exponent, "reduction": reduction, "detach_weight": detach_weight}
        distillation = {
            "alpha": alpha,
            "lambda_akd": lambda_akd,
            "teacher_targets": teacher_targets,
        }
        replay = {
            "mem_size": mem_size,
            "batch_size_mem": batch_size_mem,
            "beta": beta,
            "lambda_er": lambda_er,
            "lambda_new": lambda_new,
            "relabel_threshold": relabel_threshold,
            "replay_loss": replay_loss,
            "relabel": relabel,
            "relabel_by": relabel_by,
            "alpha": alpha,
            "policy": policy,
        }
        self.akd = AKDPlugin(**_chosen(preset, distillation | shared))
        self.replay = OnlineRelabelPlugin(**_chosen(preset, replay | shared))
        self.replay.terms = self.akd.terms
        if own["teacher"] == "closed_form":
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
        # The previous model's rows are there already, whatever kind of head it has.
        if self.start_from_teacher and isinstance(self.teacher, ClosedFormTeacher):
            taught = self.teacher.model
            if taught is not None:
                take_rows(strategy.model.head, taught.head)

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


@torch.no_grad()
def take_rows(head: Any, earlier: Any) -> None:
    """Overwrite the rows of a linear head by those of a head with as many classes, or fewer."""
    rows = slice(0, earlier.num_classes)
    head.weight[rows] = earlier.weight
    head.bias[rows] = earlier.bias


def _chosen(preset: str, given: dict[str, Any]) -> dict[str, Any]:
    """Of some parameters those that the caller or the preset has set."""
    wanted = {name: value for name, value in PRESETS[preset].items() if name in given}
    return wanted | {name: value for name, value in given.items() if value is not None}
