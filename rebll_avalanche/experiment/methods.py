"""The parameters of every method, readable before anything heavy is imported.

The methods themselves are in ``rebll_avalanche.strategies.registry``; a test keeps both in step.
"""

from __future__ import annotations

_DISTILLING = {"alpha": float, "lambda_akd": float, "exponent": str, "teacher_targets": str}
_BOTH = {"reduction": str, "detach_weight": bool}
_RELABELLING = {
    "mem_size": int,
    "batch_size_mem": int,
    "beta": float,
    "lambda_er": float,
    "relabel_threshold": float,
    "replay_loss": str,
    "relabel": bool,
    "policy": str,
}

METHOD_OPTIONS: dict[str, dict[str, type]] = {
    "rebll": _DISTILLING | _RELABELLING | _BOTH,
    "akd": _DISTILLING | _BOTH,
    "fine-tuning": {},
    "joint": {},
    "cumulative": {},
    "lwf": {"alpha": float, "temperature": float},
    "er": {"mem_size": int},
}
