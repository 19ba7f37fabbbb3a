"""Methods by name and their parameters, for strategies, configuration and commands.

Nothing here imports torch. ``builtin.json`` describes the built-in methods; it is generated from their
signatures and docstrings with ``python -m rebll_avalanche.strategies.generate``.
"""

from rebll_avalanche.methods.parameters import (
    Parameter,
    composed,
    signature_of,
    takes_also,
    texts_of,
)
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
    "texts_of",
]
