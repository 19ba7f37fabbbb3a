"""Learning without forgetting for multi-label streams: sigmoid distillation of old classes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from avalanche.training.plugins import LwFPlugin, SupervisedPlugin
from avalanche.training.regularization import RegularizationMethod
from torch import Tensor, nn

from rebll_avalanche.compatibility import check_compatibility
from rebll_avalanche.distributed.joining import take_part
from rebll_avalanche.labels import annotated, label_matrix, where_unknown
from rebll_avalanche.losses import bce_loss
from rebll_avalanche.methods import takes_also
from rebll_avalanche.plugins.networks import check_learnable
from rebll_avalanche.plugins.options import check_not_negative, check_positive
from rebll_avalanche.plugins.teacher import Teacher, share_teacher
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Experience, Strategy
from rebll_avalanche.scenario import class_range
from rebll_avalanche.stateful import Stateful

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rebll_avalanche.plugins.signatures import SigmoidLwFOptions


class SigmoidDistillation(RegularizationMethod):
    r"""Keeps the probabilities of old classes close to those of the previous model.

    .. math:: \alpha \; \mathrm{mean}_{c \in C^{1:t-1}}
        \left[ -q_c \log p_c - (1 - q_c) \log(1 - p_c) \right], \quad
        p = \sigma(z / T), \; q = \sigma(z^{old} / T)

    Avalanche's own ``LearningWithoutForgetting`` compares softmax distributions over the old classes,
    which do not tell how many of them are present in an image. An old class annotated in an image is
    not distilled there.

    Args:
        alpha: Weight of the distillation relative to the strategy's own loss.
        temperature: Temperature of student and teacher; larger values make small probabilities matter more.
    """

    def __init__(self, alpha: float = 1.0, temperature: float = 2.0) -> None:
        check_not_negative(alpha=alpha)
        check_positive(temperature=temperature)
        self.alpha = alpha
        self.temperature = temperature
        self.teacher = Teacher()
        self._old_classes = 0

    def pre_adapt(self, agent: Strategy, exp: Experience) -> None:
        """Make the model of the last experience the active teacher."""
        self.teacher.begin_experience(agent)
        self._old_classes, _ = class_range(exp)

    def post_adapt(self, agent: Strategy, exp: Experience) -> None:
        """Copy the model just trained."""
        self.teacher.end_experience(agent)

    def __call__(
        self, mb_x: Tensor, mb_pred: Tensor, model: nn.Module, targets: Tensor | None = None
    ) -> Tensor:
        """The weighted term; zero if there is nothing to distil.

        Args:
            mb_x: A batch of images.
            mb_pred: The model's logits for it.
            model: The model.
            targets: Labels of the batch; annotated ones are not distilled.
        """
        if self.teacher.model is None or not self._old_classes:
            return mb_pred.new_zeros(())
        old = slice(0, self._old_classes)
        teacher_logits = self.teacher.logits(mb_x)[:, old].float()
        target = (teacher_logits / self.temperature).sigmoid()
        if targets is not None:
            target = where_unknown(target, targets)
        return self.alpha * bce_loss(mb_pred[:, old] / self.temperature, target)


class SigmoidLwFPlugin(  # type: ignore[call-arg]
    Stateful, SupervisedPlugin, supports_distributed=True
):
    """Adds :class:`SigmoidDistillation` to a strategy's loss.

    Defaults are those of LwF: equal weights for both terms, and a temperature of 2.

    Args:
        **options: Parameters of :class:`SigmoidDistillation`.
    """

    stored = ("teacher",)

    @takes_also(SigmoidDistillation)
    def __init__(self, **options: Unpack[SigmoidLwFOptions]) -> None:
        super().__init__()
        self.distillation = SigmoidDistillation(**options)
        self.terms = LossTerms()

    @property
    def teacher(self) -> Teacher:
        """The previous model."""
        return self.distillation.teacher

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Share one teacher with the other plugins."""
        check_compatibility(strategy)
        take_part(strategy)
        self.distillation.teacher = share_teacher(strategy, self.teacher)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the criterion, and activate the teacher."""
        check_learnable(strategy)
        self.distillation.pre_adapt(strategy, strategy.experience)

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add the distillation."""
        loss = self.distillation(strategy.mb_x, strategy.mb_output, strategy.model, strategy.mb_y)
        self.terms.record("kd", loss)
        strategy.loss += loss

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Copy the model, the teacher of the next experience."""
        self.distillation.post_adapt(strategy, strategy.experience)


class SoftmaxLwFPlugin(LwFPlugin):
    """Avalanche's own LwF, adapted to label vectors for comparison.

    Its bookkeeping needs one task label and integer classes; this package's multi-label data sets
    provide their classes, so only the task label is made up. The loss is unchanged: a softmax over the
    old classes, which is invariant to a common shift of their logits. It therefore preserves the order
    of old classes within an image, but not whether any of them is present.

    Args:
        alpha: Weight of the distillation.
        temperature: Temperature of student and teacher.
    """

    def __init__(self, *, alpha: float = 1.0, temperature: float = 2.0) -> None:
        super().__init__(alpha, temperature)

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Refuse labels of old classes, since a softmax cannot leave out single classes.

        Raises:
            ValueError: When an image is annotated for a class of an earlier experience.
        """
        check_learnable(strategy)
        old, _ = class_range(strategy.experience)
        if bool(annotated(label_matrix(strategy.experience.dataset)[:, :old]).any()):
            raise ValueError(
                f"{type(self).__name__} distils a softmax over all earlier classes, but some of these are "
                f"annotated in experience {strategy.experience.current_experience}; "
                "SigmoidLwFPlugin (the method 'lwf') distils those that are not"
            )

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Copy the model and record its classes under task 0."""
        dataset = strategy.experience.dataset
        tasks = SimpleNamespace(
            targets_task_labels=SimpleNamespace(uniques={0}), task_set={0: dataset}
        )
        self.lwf.post_adapt(strategy, SimpleNamespace(dataset=tasks))
