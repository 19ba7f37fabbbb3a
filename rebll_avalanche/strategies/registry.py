"""Every method by name: what tables, examples and the command line offer.

A new method is one file with a strategy, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from avalanche.training.supervised import (
    EWC,
    MAS,
    Cumulative,
    Replay,
)

from rebll_avalanche.plugins.buffer import PolicyBuffer
from rebll_avalanche.strategies.agcn import AGCN
from rebll_avalanche.strategies.baselines import (
    AveragedGEM,
    BufferReplay,
    FineTuning,
    SynapticIntelligence,
    adopt,
    adopt_gem,
)
from rebll_avalanche.strategies.closed_form import L3A, ClosedForm
from rebll_avalanche.strategies.csc import CSC
from rebll_avalanche.strategies.der import DERPlusPlus
from rebll_avalanche.strategies.krt import KRT
from rebll_avalanche.strategies.l2p import L2P
from rebll_avalanche.strategies.lanes import MultiLane
from rebll_avalanche.strategies.lwf import SigmoidLwF, SoftmaxLwF
from rebll_avalanche.strategies.podnet import PODNet
from rebll_avalanche.strategies.rebll import RebLL
from rebll_avalanche.words import nearest


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
    # Bounds.
    "fine-tuning": Method("Fine-Tuning", FineTuning),
    "joint": Method("Joint", FineTuning, joint=True),
    "cumulative": Method("Cumulative", partial(adopt, Cumulative)),
    # The paper's method and the rows of its ablation.
    "rebll": Method("RebLL (AKD + OR)", RebLL, uses_memory=True),
    "rebll-best": Method("RebLL, best preset", partial(RebLL, preset="best"), uses_memory=True),
    "akd": Method("RebLL (AKD)", partial(RebLL, mem_size=0)),
    "cls": Method("L_cls", partial(RebLL, mem_size=0, lambda_akd=1.0)),
    "bce+kd": Method("L_bce + L_kd", partial(RebLL, mem_size=0, alpha=0.0)),
    "akd-fixed": Method("AKD, fixed 2.0", partial(RebLL, mem_size=0, exponent="fixed", alpha=2.0)),
    "akd+replay": Method(
        "AKD + Replay (L_bce)", partial(RebLL, relabel=False, replay_loss="bce"), uses_memory=True
    ),
    "akd+or-bce": Method("AKD + OR (L_bce)", partial(RebLL, replay_loss="bce"), uses_memory=True),
    "rebll-prs": Method("RebLL, PRS memory", partial(RebLL, policy="prs"), uses_memory=True),
    "rebll-ocdm": Method("RebLL, OCDM memory", partial(RebLL, policy="ocdm"), uses_memory=True),
    # Distillation.
    "lwf": Method("LwF", SigmoidLwF),
    "lwf-softmax": Method("LwF of Avalanche (softmax)", SoftmaxLwF),
    "podnet": Method("PODNet", PODNet, uses_memory=True),
    # Replay.
    "er": Method("ER", partial(adopt, Replay, mem_size=40), uses_memory=True),
    "er-reservoir": Method("ER, reservoir", BufferReplay, uses_memory=True),
    "er-prs": Method(
        "ER, PRS",
        partial(BufferReplay, buffer=partial(PolicyBuffer, policy="prs")),
        uses_memory=True,
    ),
    "er-ocdm": Method(
        "ER, OCDM",
        partial(BufferReplay, buffer=partial(PolicyBuffer, policy="ocdm")),
        uses_memory=True,
    ),
    "der++": Method("DER++", DERPlusPlus, uses_memory=True),
    "gem": Method("GEM", adopt_gem, uses_memory=True),
    "agem": Method("A-GEM", AveragedGEM, uses_memory=True),
    # Regularisation of weights, as Avalanche has it. Its Fisher information squares the gradient of
    # a whole batch's mean loss, which is tiny, so the strength must be large to do anything.
    "ewc": Method("EWC", partial(adopt, EWC, ewc_lambda=1e4)),
    "oewc": Method("oEWC", partial(adopt, EWC, ewc_lambda=1e4, mode="online", decay_factor=0.9)),
    "si": Method("SI", SynapticIntelligence),
    "mas": Method("MAS", partial(adopt, MAS)),
    # Methods with a network of their own, and RebLL on CSC's.
    "agcn": Method("AGCN", AGCN, head="agcn"),
    "csc": Method("CSC", CSC, head="gcn"),
    "csc-r": Method("CSC-R", partial(CSC, mem_size=40), uses_memory=True, head="gcn"),
    "krt": Method("KRT", KRT, head="cross_attention"),
    "krt-r": Method("KRT-R", partial(KRT, mem_size=40), uses_memory=True, head="cross_attention"),
    "l2p": Method("L2P", L2P, head="l2p"),
    "l2p-r": Method("L2P-R", partial(L2P, mem_size=40), uses_memory=True, head="l2p"),
    "multi-lane": Method("MULTI-LANE", MultiLane, head="lanes"),
    "rebll-gcn": Method("RebLL with CSC's GCN", RebLL, uses_memory=True, head="gcn"),
    # No gradient, no stored images: wants a pretrained backbone.
    "closed-form": Method("Closed form", ClosedForm, head="expanded"),
    "closed-form-adapted": Method(
        "Closed form, adapted network", partial(ClosedForm, adapt=True), head="expanded"
    ),
    "l3a": Method("L3A", L3A, head="random"),
    # RebLL taught by a closed-form head, which does not forget.
    "rebll-closed-form": Method(
        "RebLL, closed-form teacher", partial(RebLL, teacher="closed_form"), uses_memory=True
    ),
    "akd-closed-form": Method(
        "RebLL (AKD), closed-form teacher", partial(RebLL, teacher="closed_form", mem_size=0)
    ),
}


def get_method(name: str) -> Method:
    """The method of that name.

    Raises:
        ValueError: Listing the names that exist, closest first.
    """
    if name not in METHODS:
        raise ValueError(f"no method is called {name!r}; there are {nearest(name, METHODS)}")
    return METHODS[name]
