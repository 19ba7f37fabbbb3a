"""Methods by name, and their parameters: what strategies, configuration and commands all ask.

Nothing here imports torch. What is written about the built-in methods in ``builtin.json`` is generated
from their signatures and docstrings: ``python -m rebll_avalanche.strategies.generate``.
"""

from rebll_avalanche.methods.parameters import Parameter, composed, signature_of, takes_also
from rebll_avalanche.methods.registry import (
    METHODS,
    Method,
    describe,
    get_method,
    method_names,
    register,
)

__all__ = [
    "METHODS",
    "Method",
    "Parameter",
    "composed",
    "describe",
    "get_method",
    "method_names",
    "register",
    "signature_of",
    "takes_also",
]
