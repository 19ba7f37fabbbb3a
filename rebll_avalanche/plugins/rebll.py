"""RebLL: asymmetric distillation and online relabelling around one teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.memory import Memory
from rebll_avalanche.methods import composed, takes_also
from rebll_avalanche.plugins.akd import AKDPlugin
from rebll_avalanche.plugins.closed_form_teacher import ClosedFormTeacher
from rebll_avalanche.plugins.networks import check_solvable
from rebll_avalanche.plugins.relabel import OnlineRelabelPlugin
from rebll_avalanche.plugins.teacher import Teacher
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.words import check_choice

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rebll_avalanche.plugins.signatures import RebLLOptions

Preset = Literal["paper", "best"]
TeacherKind = Literal["previous", "closed_form"]

# The teacher, and changes to the defaults of the two halves, which are the paper's values.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"teacher": "previous", "start_from_teacher": False},
    "best": {
        "teacher": "closed_form",
        "start_from_teacher": True,
        "alpha": 0.0,
        "lambda_new": 0.3,
        "policy": "prs",
        "relabel_threshold": 0.5,  # this teacher's probabilities are calibrated
    },
}


class RebLLPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    r"""Adds RebLL to an Avalanche strategy.

    .. math:: L = \lambda_{akd} L_{cls} + (1 - \lambda_{akd}) L_{akd} + \lambda_{er} L_{er}

    ``mem_size=0`` is "RebLL (AKD)". The loss is :class:`AKDPlugin`, the memory
    :class:`OnlineRelabelPlugin`; ``alpha``, ``exponent``, ``reduction`` and ``detach_weight`` apply to
    both. The preset supplies defaults for parameters not given.

    Args:
        preset: ``"paper"``, the values of the paper, or ``"best"``, values chosen on validation images
            (see :data:`PRESETS`).
        teacher: The model that is distilled and that relabels: the ``"previous"`` model, as in the
            paper, or a ``"closed_form"`` head that does not forget
            (:class:`~rebll_avalanche.plugins.closed_form_teacher.ClosedFormTeacher`).
        start_from_teacher: Initialise the head with the teacher's rows at the start of every experience.
            With the previous model this changes nothing; a closed-form teacher restores what the
            student has forgotten and initialises the new classes.
        **options: Parameters of :class:`AKDPlugin` and :class:`OnlineRelabelPlugin`.

    >>> import torch
    >>> from avalanche.training import Naive
    >>> from rebll_avalanche import PartialLabelBCE, build_model, build_optimizer
    >>> from rebll_avalanche import multilabel_benchmark, multilabel_evaluator, run_stream
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> model = build_model("vector", in_features=4)
    >>> strategy = Naive(
    ...     model=model, optimizer=build_optimizer(model), criterion=PartialLabelBCE(),
    ...     plugins=[RebLLPlugin(mem_size=4)], evaluator=multilabel_evaluator(),
    ... )
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C2"))
    >>> [step.classes_seen for step in steps]
    [2, 4]
    """

    parts = (AKDPlugin, OnlineRelabelPlugin)
    presets = PRESETS
    akd: AKDPlugin
    replay: OnlineRelabelPlugin

    @takes_also(*parts)
    def __init__(
        self,
        *,
        preset: Preset = "paper",
        teacher: TeacherKind | None = None,
        start_from_teacher: bool | None = None,
        **options: Unpack[RebLLOptions],
    ) -> None:
        super().__init__()
        check_choice("preset", preset, PRESETS)
        named = {"teacher": teacher, "start_from_teacher": start_from_teacher}
        given = {name: value for name, value in (named | options).items() if value is not None}
        values = PRESETS[preset] | given
        check_choice("teacher", values["teacher"], get_args(TeacherKind))
        self.start_from_teacher = bool(values["start_from_teacher"])
        self.akd, self.replay = composed(self.parts, values, also=named)
        self.replay.terms = self.akd.terms
        if values["teacher"] == "closed_form":
            self.akd.teacher = ClosedFormTeacher()
        self.replay.teacher = self.akd.teacher

    @property
    def teacher(self) -> Teacher:
        """The teacher shared by both halves."""
        return self.akd.teacher

    @property
    def memory(self) -> Memory:
        """The replayed images and their labels."""
        return self.replay.memory

    @property
    def terms(self) -> LossTerms:
        """The terms cls, akd and er, unweighted."""
        return self.akd.terms

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the head for a closed-form teacher, then call both halves."""
        if isinstance(self.teacher, ClosedFormTeacher):
            instead = ", or use preset='paper' with teacher='previous'"
            check_solvable(strategy.model, "a closed-form teacher", instead)
        self.akd.before_training(strategy, **kwargs)
        self.replay.before_training(strategy, **kwargs)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Call both halves, and copy the teacher's rows if asked to."""
        self.akd.before_training_exp(strategy, **kwargs)
        self.replay.before_training_exp(strategy, **kwargs)
        # The student already has the previous model's rows.
        if self.start_from_teacher and isinstance(self.teacher, ClosedFormTeacher):
            taught = self.teacher.model
            if taught is not None:
                take_rows(strategy.model.head, taught.head)

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add L_akd and L_er."""
        self.akd.before_backward(strategy, **kwargs)
        self.replay.before_backward(strategy, **kwargs)

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Call both halves."""
        self.akd.after_training_exp(strategy, **kwargs)
        self.replay.after_training_exp(strategy, **kwargs)

    def after_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Restore the strategy's own criterion."""
        self.akd.after_training(strategy, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Teacher and memory."""
        return self.replay.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.replay.load_state_dict(state)


@torch.no_grad()
def take_rows(head: Any, earlier: Any) -> None:
    """Overwrite the first rows of a linear head with those of a head that has no more classes."""
    rows = slice(0, earlier.num_classes)
    head.weight[rows] = earlier.weight
    head.bias[rows] = earlier.bias
