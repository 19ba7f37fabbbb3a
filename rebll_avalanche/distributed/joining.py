"""Run a strategy on several ranks, with the results of a single process."""

from __future__ import annotations

import os
import warnings
from typing import Any

from torch import nn

from rebll_avalanche.distributed import random_numbers
from rebll_avalanche.distributed.batch_norm import synchronise
from rebll_avalanche.distributed.loading import shared
from rebll_avalanche.distributed.ranks import (
    active,
    check_backend,
    everywhere,
    from_first,
    is_first,
    launched,
    sum_in_place,
    take_from_first,
)
from rebll_avalanche.protocols import Strategy

# Avalanche's plugins that work here; others that claim support use their own samplers.
SAFE = ("Clock", "EvaluationPlugin", "PeriodicEval")
OWN = "rebll_avalanche."


class RanksPlugin:
    """Splits batches between ranks and adds up their gradients; added first by :func:`take_part`.

    Every loss is this rank's part of the whole: a sum over its own images, divided by the number of labels
    in the batches of all ranks. So the sum of the gradients is the gradient of the whole loss.
    """

    supports_distributed = True  # as declared by Avalanche's plugins

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Split the batches, and synchronise batch norms that were added since."""
        synchronise(strategy.model)
        strategy.dataloader = shared(strategy.dataloader)
        sizes = everywhere(len(strategy.experience.dataset))
        if len(set(sizes)) > 1:
            raise ValueError(
                f"the ranks have {', '.join(map(str, sizes))} images of experience "
                f"{strategy.experience.current_experience}; give all of them the same data"
            )

    def before_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check that all ranks will draw the same order and the same memory images."""
        if len(set(everywhere(random_numbers.state_hash()))) > 1:
            raise ValueError(
                "the ranks no longer have the same random numbers: something draws from the global "
                "generators on some of them only; a network, a transform or a plugin must not, or "
                "the ranks would learn from different orders"
            )

    def before_eval_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Split the images: each is evaluated by one rank."""
        strategy.dataloader = shared(strategy.dataloader)

    def after_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add up the gradients of all ranks, before other plugins read them."""
        groups = strategy.optimizer.param_groups
        parameters = (parameter for group in groups for parameter in group["params"])
        sum_in_place([p.grad for p in parameters if p.grad is not None])


def take_part(strategy: Strategy) -> None:
    """Prepare a strategy for a distributed job; does nothing in a single process, or when called again.

    All ranks start with the first one's weights and random state.

    Raises:
        ValueError: Naming a backend that cannot be used, or a strategy, plugin or layer that would learn
            something else on several ranks.
    """
    if not active():
        if launched() and os.environ["WORLD_SIZE"] != "1":
            warnings.warn(
                f"torchrun has started {os.environ['WORLD_SIZE']} processes, and each learns everything by "
                "itself; to share the work, call rebll_avalanche.distributed.ranks.start() first",
                stacklevel=2,
            )
        return
    if any(isinstance(plugin, RanksPlugin) for plugin in strategy.plugins):
        return
    check_backend()
    check_joinable(strategy)
    _mention_foreign_metrics(strategy)
    take_from_first([*strategy.model.parameters(), *strategy.model.buffers()])
    random_numbers.set_state(from_first(random_numbers.state))
    # A new list: the caller may be iterating over the old one.
    strategy.plugins = [RanksPlugin(), *strategy.plugins]


def check_joinable(strategy: Strategy) -> None:
    """Refuse parts that were not verified to give the same results on several ranks.

    Raises:
        ValueError: Naming it.
    """
    kind = type(strategy)
    epoch = getattr(kind, "training_epoch", None)
    if not f"{getattr(epoch, '__module__', '')}.".startswith(
        (OWN, "avalanche.training.templates.")
    ):
        _refuse(f"{kind.__name__} has a training loop of its own and")
    for plugin in strategy.plugins:
        kind = type(plugin)
        if kind.__module__.startswith("avalanche."):
            able = kind.__name__ in SAFE
        else:
            able = getattr(plugin, "supports_distributed", False)
        if not able:
            _refuse(kind.__name__)
    for module in strategy.model.modules():
        dropout = isinstance(module, nn.modules.dropout._DropoutNd)
        # timm's DropPath and DropBlock call it drop_prob.
        if getattr(module, "p" if dropout else "drop_prob", None):
            _refuse(f"{type(module).__name__}, which draws random numbers inside the network,")


def _refuse(what: str) -> None:
    raise ValueError(
        f"{what} is not known to learn the same on several processes as on one; run it in a single "
        "process, without torchrun. A plugin of your own that only adds sums over images, divided by "
        "counts over all ranks, may say so: class MyPlugin(SupervisedPlugin, supports_distributed=True)"
    )


def _mention_foreign_metrics(strategy: Strategy) -> None:
    metrics = getattr(getattr(strategy, "evaluator", None), "metrics", ())
    foreign = sorted({type(m).__name__ for m in metrics if not type(m).__module__.startswith(OWN)})
    if foreign and is_first():
        warnings.warn(
            f"{', '.join(foreign)}: metrics of others see the images of their own rank only; those of "
            "multilabel_evaluator() see all",
            stacklevel=3,
        )
