"""The optimizer of an experience: parameter groups, a fresh state, a learning-rate schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import OneCycleLR

from rebll_avalanche.arguments import check_kind
from rebll_avalanche.plugins.options import check_not_negative
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.words import check_choice

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}


def build_optimizer(
    model: nn.Module,
    *,
    name: str = "adamw",
    lr: float = 1e-3,
    weight_decay: float = 1e-4,
    backbone_lr_scale: float = 1.0,
    decay_head: bool = False,
) -> Optimizer:
    """An optimizer whose weight decay does not erase old classes.

    With Adam's coupled weight decay, a head row without gradient (a class of another experience) is
    pulled to zero by full-sized steps, and no loss can prevent that forgetting. So the default
    decouples the decay (AdamW), and excludes the head and all one-dimensional parameters. The paper's
    optimizer is ``name="adam", decay_head=True``.

    Args:
        model: Its parameters outside ``model.head`` count as the backbone.
        name: ``"adamw"``, ``"adam"`` or ``"sgd"``.
        lr: Learning rate of the head.
        weight_decay: For matrices and kernels only.
        backbone_lr_scale: Learning rate of the backbone, as a multiple of ``lr``.
        decay_head: Decay the head as well.

    >>> from rebll_avalanche import build_model
    >>> model = build_model("vector", in_features=4, hidden_layer=8)
    >>> optimizer = build_optimizer(model, lr=0.01, backbone_lr_scale=0.1)
    >>> sorted({(group["lr"], group["weight_decay"]) for group in optimizer.param_groups})
    [(0.001, 0.0), (0.001, 0.0001), (0.01, 0.0)]
    """
    check_choice("name", name, tuple(OPTIMIZERS))
    check_kind("model", model, nn.Module, "a torch module")
    check_not_negative(lr=lr, weight_decay=weight_decay, backbone_lr_scale=backbone_lr_scale)
    head = {id(p) for p in getattr(model, "head", nn.Identity()).parameters()}
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        in_head = id(parameter) in head
        decayed = parameter.ndim > 1 and (decay_head or not in_head)
        groups.setdefault((in_head, decayed), []).append(parameter)
    return OPTIMIZERS[name](
        [
            {
                "params": parameters,
                "part": "head" if in_head else "backbone",
                "lr": lr if in_head else lr * backbone_lr_scale,
                "weight_decay": weight_decay if decayed else 0.0,
            }
            for (in_head, decayed), parameters in groups.items()
        ]
    )


@dataclass(kw_only=True, eq=False)
class SchedulePlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Starts every experience with a fresh optimizer state and learning-rate schedule.

    Args:
        schedule: ``"onecycle"`` (up for a fifth of the steps, then down to zero) or ``"constant"``.
        later_lr_scale: Multiplies the learning rates after the first experience.
        later_backbone_lr_scale: Multiplies the backbone's learning rate once more, for optimizers of
            :func:`build_optimizer`. A backbone trained at its initial rate in later experiences forgets
            more than any loss can prevent.

    >>> import torch
    >>> from rebll_avalanche import build_model, build_optimizer, multilabel_benchmark, run_stream
    >>> from rebll_avalanche.strategies.template import FineTuning
    >>> x, y = torch.rand(8, 4), torch.eye(4).repeat(2, 1)  # 8 vectors, 4 classes
    >>> model = build_model("vector", in_features=4)
    >>> optimizer = build_optimizer(model, lr=0.1)
    >>> slower = SchedulePlugin(schedule="constant", later_lr_scale=0.5)
    >>> strategy = FineTuning(model=model, optimizer=optimizer, plugins=[slower])
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C2"))
    >>> optimizer.param_groups[0]["lr"]  # in the second experience
    0.05
    """

    schedule: str = "onecycle"
    later_lr_scale: float = 1.0
    later_backbone_lr_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__init__()
        check_choice("schedule", self.schedule, ("onecycle", "constant"))
        self._base_rates: list[float] | None = None
        self._scheduler: OneCycleLR | None = None

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Reset the optimizer state and schedule this experience's learning rates."""
        optimizer: Optimizer = strategy.optimizer
        if self._base_rates is None:
            self._base_rates = [group["lr"] for group in optimizer.param_groups]
        rates = list(self._base_rates)
        if strategy.experience.current_experience > 0:
            backbone = self.later_lr_scale * self.later_backbone_lr_scale
            rates = [
                rate * (backbone if group.get("part") == "backbone" else self.later_lr_scale)
                for rate, group in zip(rates, optimizer.param_groups, strict=True)
            ]
        optimizer.state.clear()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
            # Left over from the previous schedule; a new one would read them instead of max_lr.
            for name in ("initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum"):
                group.pop(name, None)
        steps = len(strategy.dataloader) * strategy.train_epochs
        self._scheduler = (
            # With five steps or fewer, a fifth leaves a warm-up of length zero, and torch divides by it.
            OneCycleLR(optimizer, max_lr=rates, total_steps=steps, pct_start=max(0.2, 1.5 / steps))
            if self.schedule == "onecycle" and steps > 1
            else None
        )

    def after_training_iteration(self, strategy: Strategy, **kwargs: Any) -> None:
        """Advance the schedule by one step."""
        if (
            self._scheduler is not None
            and self._scheduler.last_epoch < self._scheduler.total_steps - 1
        ):
            self._scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """Base learning rates, and the position in the schedule."""
        scheduler = self._scheduler.state_dict() if self._scheduler is not None else {}
        # Only numbers are saved; the annealing function is chosen again on loading.
        numbers = {k: v for k, v in scheduler.items() if isinstance(v, int | float | list)}
        return {"base_rates": self._base_rates, "scheduler": numbers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._base_rates = state["base_rates"]
        if self._scheduler is not None and state["scheduler"]:
            self._scheduler.load_state_dict(state["scheduler"])
