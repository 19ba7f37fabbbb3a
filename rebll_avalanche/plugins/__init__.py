"""Avalanche plugins: hooks that wire losses and memory into a strategy's training loop."""

from rebll_avalanche.plugins.agcn import AGCNPlugin, LabelGraphPlugin
from rebll_avalanche.plugins.akd import AKDPlugin
from rebll_avalanche.plugins.buffer import PolicyBuffer, SharedBudgetPlugin
from rebll_avalanche.plugins.csc import CSCPlugin
from rebll_avalanche.plugins.der import DERPlusPlusPlugin
from rebll_avalanche.plugins.krt import KRTPlugin
from rebll_avalanche.plugins.l2p import L2PPlugin
from rebll_avalanche.plugins.lanes import LanesPlugin
from rebll_avalanche.plugins.lwf import SigmoidDistillation, SigmoidLwFPlugin, SoftmaxLwFPlugin
from rebll_avalanche.plugins.podnet import PODPlugin
from rebll_avalanche.plugins.rebll import RebLLPlugin
from rebll_avalanche.plugins.relabel import OnlineRelabelPlugin
from rebll_avalanche.plugins.schedule import SchedulePlugin, build_optimizer
from rebll_avalanche.plugins.teacher import TaughtPlugin, Teacher, share_teacher

__all__ = [
    "AGCNPlugin",
    "AKDPlugin",
    "CSCPlugin",
    "DERPlusPlusPlugin",
    "KRTPlugin",
    "L2PPlugin",
    "LabelGraphPlugin",
    "LanesPlugin",
    "OnlineRelabelPlugin",
    "PODPlugin",
    "PolicyBuffer",
    "RebLLPlugin",
    "SchedulePlugin",
    "SharedBudgetPlugin",
    "SigmoidDistillation",
    "SigmoidLwFPlugin",
    "SoftmaxLwFPlugin",
    "TaughtPlugin",
    "Teacher",
    "build_optimizer",
    "share_teacher",
]
