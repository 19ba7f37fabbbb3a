"""Methods made from plugins, whose parameters and documentation they share."""

from __future__ import annotations

from functools import partial

from rebll_avalanche.plugins import (
    AGCNPlugin,
    CSCPlugin,
    DERPlusPlusPlugin,
    KRTPlugin,
    L2PPlugin,
    LanesPlugin,
    PODPlugin,
    RebLLPlugin,
    SharedBudgetPlugin,
    SigmoidLwFPlugin,
    SoftmaxLwFPlugin,
)
from rebll_avalanche.plugins.agem import DrawingAGEMPlugin
from rebll_avalanche.plugins.replay import balanced_replay, buffer_replay, masked_replay
from rebll_avalanche.plugins.si import CopyingSIPlugin
from rebll_avalanche.strategies.template import MethodStrategy


class RebLL(MethodStrategy, rebll=RebLLPlugin):
    """RebLL, rebalanced multi-label class-incremental learning; ``mem_size=0`` is "RebLL (AKD)".

    Its ``criterion`` is used in evaluation only; training replaces it by L_cls.

    >>> from rebll_avalanche import build_model, build_optimizer
    >>> model = build_model("vector", in_features=4)
    >>> strategy = RebLL(model=model, optimizer=build_optimizer(model), mem_size=40, alpha=0.6)
    >>> strategy.rebll.memory.mem_size
    40
    """


class SigmoidLwF(MethodStrategy, lwf=SigmoidLwFPlugin):
    r"""LwF with a sigmoid per class: :math:`L = L_{bce}(C^t) + \alpha L_{kd}(C^{1:t-1})`."""


class SoftmaxLwF(MethodStrategy, lwf=SoftmaxLwFPlugin):
    """Avalanche's own LwF loss on label vectors, for comparison."""


class PODNet(MethodStrategy, replay=balanced_replay, pod=PODPlugin):
    """Pooled-output distillation and replay.

    Memory is Avalanche's experience-balanced one, as in ER; the original uses herding. Replayed images
    are part of the batch and are distilled like the others.
    """


class DERPlusPlus(MethodStrategy, der=DERPlusPlusPlugin):
    """Dark experience replay with labels."""


class AGCN(MethodStrategy, agcn=AGCNPlugin):
    """A growing label graph, and distillation of its nodes; needs ``head="agcn"``."""


class CSC(MethodStrategy, csc=CSCPlugin, replay=partial(masked_replay, replay_weight=0.5)):
    """Distillation and entropy of the old classes; made for ``head="gcn"``."""


class KRT(MethodStrategy, krt=KRTPlugin):
    """Pseudo-labels, and a token per experience; needs ``head="cross_attention"``."""


class L2P(MethodStrategy, l2p=L2PPlugin, replay=masked_replay):
    """Prompts for a frozen transformer; needs ``head="l2p"`` on a ViT."""


class MultiLane(MethodStrategy, lanes=LanesPlugin):
    """Learns each experience's labels in a separate lane; needs ``head="lanes"`` on a ViT.

    Further plugins must have no loss on old classes that the stream does not annotate: in training,
    the logits of these classes are NaN.
    """


class AveragedGEM(MethodStrategy, budget=SharedBudgetPlugin, agem=DrawingAGEMPlugin):
    """Avalanche's A-GEM with one budget for all experiences."""


class BufferReplay(MethodStrategy, replay=buffer_replay):
    """Experience replay as in Avalanche's ``Replay``, with a chosen buffer.

    Memory images are added to the batches of the experience, with their own labels.
    """


class SynapticIntelligence(MethodStrategy, si=CopyingSIPlugin):
    """Avalanche's SI, fixed for CPUs, where the original has no effect."""
