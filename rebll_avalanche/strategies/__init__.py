"""Avalanche strategies: RebLL and the methods it is compared with."""

from rebll_avalanche.strategies.baselines import adopt
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
from rebll_avalanche.strategies.registry import METHODS, Method, get_method, register
from rebll_avalanche.strategies.template import FineTuning, MethodStrategy

__all__ = [
    "AGCN",
    "CSC",
    "KRT",
    "L2P",
    "L3A",
    "METHODS",
    "AveragedGEM",
    "BufferReplay",
    "ClosedForm",
    "DERPlusPlus",
    "FineTuning",
    "Method",
    "MethodStrategy",
    "MultiLane",
    "PODNet",
    "RebLL",
    "SigmoidLwF",
    "SoftmaxLwF",
    "SynapticIntelligence",
    "adopt",
    "get_method",
    "register",
]
