"""Every method by name: what tables, examples and the command line offer.

A new method is one file with a strategy, and one line here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from avalanche.training.supervised import Cumulative, Replay

from rebll_avalanche.strategies.baselines import FineTuning, adopt
from rebll_avalanche.strategies.lwf import SigmoidLwF
from rebll_avalanche.strategies.rebll import RebLL


@dataclass(frozen=True)
class Method:
    """A named way to learn a stream.

    Attributes:
        label: How tables print it.
        build: Makes the strategy from keyword arguments: ``model``, ``optimizer``, Avalanche's own
            (``train_mb_size``, ``train_epochs``, ``eval_mb_size``, ``device``, ``plugins``,
            ``evaluator``), ``mem_size`` if it has a memory, and the method's parameters.
        uses_memory: Whether ``mem_size`` means anything to it.
        head: The head its network has.
        joint: Trained once on all classes with all labels: the ceiling, not a continual learner.
    """

    label: str
    build: Callable[..., Any]
    uses_memory: bool = False
    head: str = "linear"
    joint: bool = False


METHODS: dict[str, Method] = {
    "rebll": Method("RebLL (AKD + OR)", RebLL, uses_memory=True),
    "akd": Method("RebLL (AKD)", partial(RebLL, mem_size=0)),
    "fine-tuning": Method("Fine-Tuning", FineTuning),
    "joint": Method("Joint", FineTuning, joint=True),
    "cumulative": Method("Cumulative", partial(adopt, Cumulative)),
    "lwf": Method("LwF", SigmoidLwF),
    "er": Method("ER", partial(adopt, Replay, mem_size=40), uses_memory=True),
}


def get_method(name: str) -> Method:
    """The method of that name.

    Raises:
        ValueError: Listing the names that exist, closest first.
    """
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=len(METHODS), cutoff=0)
        raise ValueError(f"no method is called {name!r}; there are {', '.join(close)}")
    return METHODS[name]
