"""Avalanche's own strategies on partial labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.supervised import GEM
from torch import nn

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.methods import takes_also
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.plugins.buffer import SharedBudgetPlugin
from rebll_avalanche.plugins.networks import CheckNetworkPlugin
from rebll_avalanche.strategies.template import Evaluator


def adopt(
    strategy: Callable[..., Any],
    *,
    criterion: nn.Module | None = None,
    train_mb_size: int = 64,
    eval_mb_size: int | None = None,
    plugins: Sequence[SupervisedPlugin] | None = None,
    evaluator: Evaluator = multilabel_evaluator,
    **options: Any,
) -> Any:
    """Build an unmodified Avalanche strategy with defaults that suit partial labels.

    Args:
        strategy: A strategy class of Avalanche, such as ``Replay``.
        criterion: Must ignore NaN labels.
        train_mb_size: Images per training batch.
        eval_mb_size: Images per evaluation batch; as in training if not given.
        plugins: Further plugins. They are passed in a new list, since Avalanche appends to it.
        evaluator: Metrics and loggers, or a function that makes them.
        **options: Further parameters of the strategy.
    """
    return strategy(
        criterion=PartialLabelBCE() if criterion is None else criterion,
        train_mb_size=train_mb_size,
        eval_mb_size=train_mb_size if eval_mb_size is None else eval_mb_size,
        plugins=[*(plugins or []), CheckNetworkPlugin()],
        evaluator=evaluator,
        **options,
    )


@takes_also(GEM)
def adopt_gem(
    *, mem_size: int = 40, plugins: Sequence[SupervisedPlugin] | None = None, **options: Any
) -> Any:
    """Avalanche's ``GEM`` with one budget for all experiences.

    Args:
        mem_size: Number of images kept when the whole stream has been seen.
        plugins: Further plugins.
        **options: As in :func:`adopt`.
    """
    return adopt(
        GEM,
        patterns_per_exp=mem_size,
        plugins=[*(plugins or []), SharedBudgetPlugin(mem_size)],
        **options,
    )
