"""Replay of memory images whose missing labels are filled in online: the label half of RebLL."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from avalanche.training.plugins import ReplayPlugin
from torch import Tensor, nn

from rebll_avalanche.arguments import check_number
from rebll_avalanche.labels import label_matrix
from rebll_avalanche.losses import bce_loss, er_loss, probability
from rebll_avalanche.memory import Memory, Provenance
from rebll_avalanche.memory.sampling import PolicyName, SamplingPolicy
from rebll_avalanche.plugins.akd import AKDPlugin
from rebll_avalanche.plugins.criterion import check_steerable
from rebll_avalanche.plugins.options import Exponent, Reduction, check_not_negative, decay_exponent
from rebll_avalanche.plugins.relabel_rules import Rule, StreamShares, labels_from
from rebll_avalanche.plugins.teacher import TaughtPlugin, forward_frozen
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import class_range
from rebll_avalanche.words import check_choice

ReplayLoss = Literal["er", "bce"]


@dataclass(kw_only=True, eq=False)
class OnlineRelabelPlugin(TaughtPlugin, supports_distributed=True):  # type: ignore[call-arg]
    r"""Adds :math:`\lambda_{er} L_{er}` on a memory with completed labels (equations 7 and 8).

    When experience t ends, some of its images enter memory. The previous model labels their earlier
    classes; the model just trained labels the new classes of all older images. Annotations are kept,
    and filled labels are not changed again. During the next experience, a batch of memory is replayed
    with every training batch.

    Args:
        mem_size: Number of images kept; the paper's "2/class" is ``2 * classes of the benchmark``.
        batch_size_mem: Memory images per step (fewer if memory holds fewer).
        beta: Strength of the down-weighting of negatives in L_er.
        lambda_er: Weight of L_er.
        lambda_new: Weight of a cross-entropy that treats the new classes as absent from memory images
            (0, as in the paper, leaves them out). Otherwise new classes only appear in images of their
            own experience, and lack negatives.
        relabel_threshold: A missing label becomes 1 if the probability is above, else 0. The paper does
            not state its value. 0.8 is our interpretation: it is the field's usual decision threshold,
            and better than 0.5 in every measurement here (benchmarks/results/why.md).
        exponent: ``"adaptive"``: beta log(seen classes); ``"fixed"``: beta itself.
        replay_loss: ``"er"``, or ``"bce"`` for plain binary cross-entropy.
        relabel: ``False`` keeps only an image's original labels; the others stay masked.
        relabel_by: How a probability becomes a label; see
            :func:`~rebll_avalanche.plugins.relabel_rules.labels_from`.
        alpha: Strength of the down-weighting in the loss of the relabelling models; used only by
            ``relabel_by="posterior"``.
        policy: Which images stay in memory.
        reduction: ``"mean"`` over classes, or ``"class_sum"`` as printed.
        detach_weight: Stop the gradient through the weight ``p^b``.

    >>> import torch
    >>> from rebll_avalanche import build_model, build_optimizer, multilabel_benchmark, run_stream
    >>> from rebll_avalanche.strategies.template import FineTuning
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> model, relabel = build_model("vector", in_features=4), OnlineRelabelPlugin(mem_size=3)
    >>> strategy = FineTuning(model=model, optimizer=build_optimizer(model), plugins=[relabel])
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C2"))
    >>> len(relabel.memory), relabel.memory.labels.isnan().any().item()  # every label is filled in
    (3, False)
    """

    stored = ("teacher", "memory", "shares")

    mem_size: int = 40
    batch_size_mem: int = 64
    beta: float = 0.7
    lambda_er: float = 0.30
    lambda_new: float = 0.0
    relabel_threshold: float = 0.8
    exponent: Exponent = AKDPlugin.exponent
    replay_loss: ReplayLoss = "er"
    relabel: bool = True
    relabel_by: Rule = "score"
    alpha: float = AKDPlugin.alpha  # of the loss that relabelling models are trained with
    policy: PolicyName | SamplingPolicy = "reservoir"
    reduction: Reduction = AKDPlugin.reduction
    detach_weight: bool = AKDPlugin.detach_weight

    def __post_init__(self) -> None:
        super().__init__()
        check_number("batch_size_mem", self.batch_size_mem, 1, whole=True)
        check_not_negative(
            alpha=self.alpha, beta=self.beta, lambda_er=self.lambda_er, lambda_new=self.lambda_new
        )
        check_number("relabel_threshold", self.relabel_threshold, 0, 1)
        check_choice("exponent", self.exponent, get_args(Exponent))
        check_choice("replay_loss", self.replay_loss, get_args(ReplayLoss))
        check_choice("reduction", self.reduction, get_args(Reduction))
        check_choice("relabel_by", self.relabel_by, get_args(Rule))
        self.memory = Memory(self.mem_size, self.policy)
        self.shares = StreamShares()
        self.terms = LossTerms()
        self._seen_classes = 0
        self._exponent_now = 0.0

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Share one teacher with the other plugins; warn if memory is replayed twice."""
        check_steerable(strategy, self)
        super().before_training(strategy, **kwargs)
        if any(isinstance(plugin, ReplayPlugin) for plugin in strategy.plugins):
            warnings.warn(
                "this strategy replays through Avalanche's ReplayPlugin and through "
                f"{type(self).__name__}: two memories, and two replay terms in the loss",
                stacklevel=2,
            )

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Set the exponent for the number of seen classes."""
        super().before_training_exp(strategy, **kwargs)
        self.memory.bind(strategy.experience)
        _, self._seen_classes = class_range(strategy.experience)
        factor = self.beta if self.replay_loss == "er" else 0.0
        self._exponent_now = decay_exponent(self.exponent, factor, self._seen_classes)

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Replay a batch of memory."""
        if not len(self.memory) or not self.old_classes:
            return
        old = slice(0, self.old_classes)
        images, labels = (
            _sent(part, strategy.device) for part in self.memory.draw(self.batch_size_mem)
        )
        logits = strategy.model(images)
        loss = er_loss(
            logits[:, old],
            labels[:, old],
            exponent=self._exponent_now,
            detach_weight=self.detach_weight,
            reduction=self.reduction,
        )
        self.terms.record("er", loss)
        strategy.loss += self.lambda_er * loss
        if self.lambda_new and self._seen_classes > self.old_classes:
            new = slice(self.old_classes, self._seen_classes)
            absent = labels[:, new].nan_to_num(nan=0.0)
            loss = bce_loss(logits[:, new], absent, reduction=self.reduction)
            self.terms.record("new", loss)
            strategy.loss += self.lambda_new * loss

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Sample the experience into memory, then fill in missing labels."""
        super().after_training_exp(strategy, **kwargs)
        if self.memory.mem_size:
            self.memory.update(strategy.experience, strategy)
            self.shares.add(label_matrix(strategy.experience.dataset))
            if self.relabel:
                self._fill(strategy)

    def _fill(self, strategy: Strategy) -> None:
        lo, hi = class_range(strategy.experience)
        new_rows, old_rows = self.memory.rows_of(strategy.experience.current_experience)
        # Rows, columns, the model that labels them, and how many classes it was trained on.
        models: list[tuple[Tensor, slice, nn.Module | None, int, Provenance]] = [
            (new_rows, slice(0, lo), self.teacher.model, lo, Provenance.PREVIOUS_MODEL),
            (old_rows, slice(lo, hi), self.teacher.successor, hi, Provenance.CURRENT_MODEL),
        ]
        for rows, columns, model, seen, provenance in models:
            if model is None or columns.start == columns.stop:
                continue
            asymmetry = 0.0 if self.teacher.calibrated else self.alpha
            decide = partial(
                labels_from,
                rule=self.relabel_by,
                threshold=self.relabel_threshold,
                exponent=decay_exponent(self.exponent, asymmetry, seen),
                detach_weight=self.detach_weight,
                shares=self.shares.of(columns),
            )
            self.memory.relabel(
                rows,
                columns,
                partial(_predict, model, strategy.device),
                decide=decide,
                provenance=provenance,
                batch_size=strategy.eval_mb_size,
            )


def _predict(model: nn.Module, device: Any, images: Tensor) -> Tensor:
    return probability(forward_frozen(model, _sent(images, device)))


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to the device; to a GPU from pinned memory, so that the copy is asynchronous."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
