"""The built-in methods by name, as offered by tables, examples and the command line."""

from __future__ import annotations

from functools import partial

from avalanche.training.supervised import EWC, MAS, Cumulative, Replay

from rebll_avalanche.methods import METHODS, Method, get_method, register, signature_of
from rebll_avalanche.plugins import AKDPlugin, CSCPlugin, L2PPlugin, PolicyBuffer
from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.strategies.baselines import adopt, adopt_gem
from rebll_avalanche.strategies.closed_form import L3A, ClosedForm
from rebll_avalanche.strategies.methods import (
    AGCN,
    CSC,
    KRT,
    L2P,
    AveragedGEM,
    BufferReplay,
    DERPlusPlus,
    MultiLane,
    PODNet,
    RebLL,
    SigmoidLwF,
    SoftmaxLwF,
    SynapticIntelligence,
)
from rebll_avalanche.strategies.template import FineTuning

# Parameters offered where the registry fixes the others, such as mem_size=0.
_AKD = tuple(signature_of(AKDPlugin).parameters)
_KRT = ("lambda_token", "labels_per_image", "exponent", "margin")
_EWC = ("ewc_lambda", "decay_factor")

BUILT_IN: dict[str, Method] = {
    # The paper's method and the rows of its ablation.
    "rebll": Method("RebLL (AKD + OR)", RebLL),
    "rebll-best": Method("RebLL, best preset", partial(RebLL, preset="best")),
    "akd": Method("RebLL (AKD)", partial(RebLL, mem_size=0), offers=_AKD),
    "cls": Method("L_cls", partial(RebLL, mem_size=0, lambda_akd=1.0), offers=_AKD),
    "bce+kd": Method("L_bce + L_kd", partial(RebLL, mem_size=0, alpha=0.0), offers=_AKD),
    "akd-fixed": Method(
        "AKD, fixed 2.0", partial(RebLL, mem_size=0, exponent="fixed", alpha=2.0), offers=_AKD
    ),
    "akd+replay": Method("AKD + Replay (L_bce)", partial(RebLL, relabel=False, replay_loss="bce")),
    "akd+or-bce": Method("AKD + OR (L_bce)", partial(RebLL, replay_loss="bce")),
    "rebll-prs": Method("RebLL, PRS memory", partial(RebLL, policy="prs")),
    "rebll-ocdm": Method("RebLL, OCDM memory", partial(RebLL, policy="ocdm")),
    "rebll-gcn": Method("RebLL with CSC's GCN", RebLL, head="gcn"),
    # RebLL taught by a closed-form head, which does not forget.
    "rebll-closed-form": Method(
        "RebLL, closed-form teacher", partial(RebLL, teacher="closed_form")
    ),
    "akd-closed-form": Method(
        "RebLL (AKD), closed-form teacher",
        partial(RebLL, teacher="closed_form", mem_size=0),
        offers=_AKD,
    ),
    # Bounds.
    "fine-tuning": Method("Fine-Tuning", FineTuning),
    "joint": Method("Joint", FineTuning, joint=True),
    "cumulative": Method("Cumulative", partial(adopt, Cumulative)),
    # Distillation.
    "lwf": Method("LwF", SigmoidLwF),
    "lwf-softmax": Method("LwF of Avalanche (softmax)", SoftmaxLwF),
    "podnet": Method("PODNet", PODNet),
    # Replay.
    "er": Method("ER", partial(adopt, Replay, mem_size=40), offers=("mem_size",)),
    "er-reservoir": Method("ER, reservoir", BufferReplay),
    "er-prs": Method("ER, PRS", partial(BufferReplay, buffer=partial(PolicyBuffer, policy="prs"))),
    "er-ocdm": Method(
        "ER, OCDM", partial(BufferReplay, buffer=partial(PolicyBuffer, policy="ocdm"))
    ),
    "der++": Method("DER++", DERPlusPlus),
    "gem": Method("GEM", adopt_gem, offers=("mem_size", "memory_strength")),
    "agem": Method("A-GEM", AveragedGEM),
    # Regularisation of weights, from Avalanche. Its Fisher information squares the gradient of a
    # batch's mean loss, which is tiny, so the strength must be large to have an effect.
    "ewc": Method("EWC", partial(adopt, EWC, ewc_lambda=1e4), offers=_EWC),
    "oewc": Method(
        "oEWC", partial(adopt, EWC, ewc_lambda=1e4, mode="online", decay_factor=0.9), offers=_EWC
    ),
    "si": Method("SI", SynapticIntelligence),
    "mas": Method("MAS", partial(adopt, MAS), offers=("lambda_reg", "alpha")),
    # Methods with their own network.
    "agcn": Method("AGCN", AGCN, head="agcn"),
    "csc": Method("CSC", CSC, head="gcn", offers=signature_of(CSCPlugin).parameters),
    "csc-r": Method("CSC-R", partial(CSC, mem_size=40), head="gcn"),
    "krt": Method("KRT", KRT, head="cross_attention", offers=_KRT),
    "krt-r": Method("KRT-R", partial(KRT, mem_size=40), head="cross_attention"),
    "l2p": Method("L2P", L2P, head="l2p", offers=signature_of(L2PPlugin).parameters),
    "l2p-r": Method("L2P-R", partial(L2P, mem_size=40), head="l2p"),
    "multi-lane": Method("MULTI-LANE", MultiLane, head="lanes"),
    # No gradient, no stored images; these need a pretrained backbone.
    "closed-form": Method("Closed form", ClosedForm, head="expanded"),
    "closed-form-adapted": Method(
        "Closed form, adapted network",
        partial(ClosedForm, adapt=True),
        head="expanded",
        offers=signature_of(ClosedFormPlugin).parameters,
    ),
    "l3a": Method("L3A", L3A, head="random", offers=("gamma", "threshold")),
}
for _name, _method in BUILT_IN.items():
    register(_name, _method)

__all__ = ["METHODS", "Method", "get_method", "register"]
