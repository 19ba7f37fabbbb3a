"""Avalanche strategies: RebLL and the systems it is measured against."""

from rebll_avalanche.strategies.rebll import RebLL
from rebll_avalanche.strategies.registry import METHODS, Method, get_method

__all__ = ["METHODS", "Method", "RebLL", "get_method"]
