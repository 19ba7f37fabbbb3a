"""The strategies that all methods of this package build on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import torch
from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin
from avalanche.training.templates import SupervisedTemplate
from torch import nn
from torch.optim import Optimizer

from rebll_avalanche.arguments import check_kind, check_number
from rebll_avalanche.distributed.joining import take_part
from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.methods import composed, signature_of, takes_also
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.plugins.networks import check_learnable
from rebll_avalanche.strategies.loader import in_batches
from rebll_avalanche.words import brief, check_choice

Evaluator: TypeAlias = EvaluationPlugin | Callable[[], EvaluationPlugin]


class FineTuning(SupervisedTemplate):
    """Learns each experience's labels without protecting earlier ones: equation (1) alone.

    .. math:: L = L_{bce}(C^t)

    Old columns are unknown (NaN) in the targets, so they get no gradient of their own and change only
    through the shared backbone. On a stream with all labels in one experience this is Joint. It is the
    base class of this package's other methods and has the arguments they share.

    Args:
        model: A network with output columns in order of learning; ``build_model(...)`` makes one.
        optimizer: See :func:`~rebll_avalanche.plugins.schedule.build_optimizer` for a safe choice.
        criterion: Must ignore NaN labels.
        train_mb_size: Images per training batch.
        train_epochs: Passes over each experience.
        eval_mb_size: Images per evaluation batch; as in training if not given.
        device: Where to train.
        plugins: Further plugins; the list itself is not changed.
        evaluator: Metrics and loggers, or a function that makes them.
        eval_every: See Avalanche: -1 never, 0 after each experience, n every n epochs.
        peval_mode: See Avalanche: ``"epoch"`` or ``"iteration"``.

    >>> import torch
    >>> from rebll_avalanche import build_model, build_optimizer, multilabel_benchmark, run_stream
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> model = build_model("vector", in_features=4)
    >>> strategy = FineTuning(model=model, optimizer=build_optimizer(model), train_epochs=2)
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C2"))
    >>> [step.classes_seen for step in steps]
    [2, 4]
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
        check_kind("model", model, nn.Module, "a torch module")
        check_kind("optimizer", optimizer, Optimizer, "a torch optimizer")
        check_number("train_mb_size", train_mb_size, 1, whole=True)
        check_number("train_epochs", train_epochs, 1, whole=True)
        if eval_mb_size is not None:
            check_number("eval_mb_size", eval_mb_size, 1, whole=True)
        check_number("eval_every", eval_every, -1, whole=True)
        check_choice("peval_mode", peval_mode, ("epoch", "iteration"))
        _check_device(device)
        _check_plugins(plugins)
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

    def _check_distributed_training_compatibility(self) -> bool:
        """Avalanche asks this before it trains or evaluates, and only warns; here it is refused."""
        take_part(self)
        return True

    def check_model_and_optimizer(self, **kwargs: Any) -> None:
        """Adapt the model to the experience, and check that it can learn it."""
        super().check_model_and_optimizer(**kwargs)
        check_learnable(self)

    def make_eval_dataloader(self, **kwargs: Any) -> None:
        """Make Avalanche's loader, reading batches instead of samples where possible."""
        super().make_eval_dataloader(**kwargs)
        self.dataloader = in_batches(self.dataloader)


def _check_device(device: Any) -> None:
    check_kind("device", device, str | torch.device, "'cpu', 'cuda' or the like")
    try:
        torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device must be 'cpu', 'cuda' or the like, got {brief(device)}"
        ) from error


def _check_plugins(plugins: Any) -> None:
    """Plugins are whatever has hooks, as in Avalanche."""
    if plugins is None:
        return
    check_kind("plugins", plugins, list | tuple, "a list of plugins")
    for plugin in plugins:
        if not any(name.startswith(("before_", "after_")) for name in dir(plugin)):
            raise TypeError(f"plugins must have hooks such as before_backward, got {brief(plugin)}")


class MethodStrategy(FineTuning):
    """A strategy made from plugins, whose parameters become those of its constructor.

    ``class CSC(MethodStrategy, csc=CSCPlugin, replay=masked_replay)`` has the parameters of
    ``CSCPlugin``, ``masked_replay`` and :class:`FineTuning`, and the two plugins as attributes ``csc``
    and ``replay``. A part is a plugin class, or a function that returns a plugin or None.

    Args:
        plugins: Further plugins, called before the method's own.
        **options: Parameters of the parts, and those of :class:`FineTuning`.

    >>> from rebll_avalanche import AKDPlugin, build_model, build_optimizer
    >>> class Distilled(MethodStrategy, akd=AKDPlugin):
    ...     '''Fine-tuning with asymmetric distillation.'''
    >>> model = build_model("vector", in_features=4)
    >>> Distilled(model=model, optimizer=build_optimizer(model), alpha=0.6).akd.alpha
    0.6
    """

    parts: ClassVar[dict[str, Callable[..., SupervisedPlugin | None]]] = {}

    @takes_also(FineTuning)
    def __init__(
        self, *, plugins: Sequence[SupervisedPlugin] | None = None, **options: Any
    ) -> None:
        _check_plugins(plugins)
        shared = signature_of(FineTuning).parameters
        own = composed(self.parts.values(), options, also=shared)
        for name, plugin in zip(self.parts, own, strict=True):
            setattr(self, name, plugin)
        super().__init__(
            plugins=[*(plugins or []), *(plugin for plugin in own if plugin is not None)],
            **{name: value for name, value in options.items() if name in shared},
        )

    def __init_subclass__(cls, **parts: Callable[..., SupervisedPlugin | None]) -> None:
        cls.parts = parts or cls.parts

        def init(self: Any, **options: Any) -> None:
            super(cls, self).__init__(**options)

        own = vars(cls).get("__init__", init)
        cls.__init__ = takes_also(*parts.values(), cls.__mro__[1])(own)  # type: ignore[method-assign]
        super().__init_subclass__()  # Avalanche wraps the constructor to check its arguments


# Only subclasses need Avalanche's check: this constructor gets the parameters of any of them.
MethodStrategy.__init__ = MethodStrategy.__init__.__wrapped__  # type: ignore[attr-defined,method-assign]
