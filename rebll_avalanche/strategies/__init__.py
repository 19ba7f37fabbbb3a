"""Avalanche strategies: RebLL and the systems it is measured against."""

from rebll_avalanche.strategies.agcn import AGCN
from rebll_avalanche.strategies.baselines import BufferReplay, FineTuning, adopt
from rebll_avalanche.strategies.csc import CSC
from rebll_avalanche.strategies.der import DERPlusPlus
from rebll_avalanche.strategies.krt import KRT
from rebll_avalanche.strategies.l2p import L2P
from rebll_avalanche.strategies.lanes import MultiLane
from rebll_avalanche.strategies.lwf import SigmoidLwF, SoftmaxLwF
from rebll_avalanche.strategies.podnet import PODNet
from rebll_avalanche.strategies.rebll import RebLL
from rebll_avalanche.strategies.registry import METHODS, Method, get_method

__all__ = [
    "AGCN",
    "CSC",
    "KRT",
    "L2P",
    "METHODS",
    "BufferReplay",
    "DERPlusPlus",
    "FineTuning",
    "Method",
    "MultiLane",
    "PODNet",
    "RebLL",
    "SigmoidLwF",
    "SoftmaxLwF",
    "adopt",
    "get_method",
]
