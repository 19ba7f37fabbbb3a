"""Avalanche strategies: RebLL and the systems it is measured against."""

from rebll_avalanche.strategies.baselines import FineTuning, adopt
from rebll_avalanche.strategies.lwf import SigmoidLwF
from rebll_avalanche.strategies.rebll import RebLL
from rebll_avalanche.strategies.registry import METHODS, Method, get_method

__all__ = ["METHODS", "FineTuning", "Method", "RebLL", "SigmoidLwF", "adopt", "get_method"]
