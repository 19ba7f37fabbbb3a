"""Any state of a run as tensors and JSON, so that reading it can never run code."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

KINDS = ("tensor", "array", "tuple", "set", "dict")


def pack(state: Any, tensors: dict[str, Tensor], path: str = "state") -> Any:
    """Split a nested state: tensors go into ``tensors``, the rest comes back ready for JSON.

    Args:
        state: Dictionaries, lists, tuples, sets, numbers, strings, ``None``, tensors, arrays.
        tensors: Filled with one entry per tensor.
        path: Where ``state`` stands, for the names of tensors and for messages.

    Raises:
        TypeError: Naming the place of a value that is none of these.

    >>> tensors = {}
    >>> pack({"step": 3, "betas": (0.9, 0.99)}, tensors)
    {'step': 3, 'betas': {'__kind__': 'tuple', 'value': [0.9, 0.99]}}
    """
    if state is None or isinstance(state, bool | int | float | str):
        return state
    if isinstance(state, Tensor):
        return {"__kind__": "tensor", "value": _keep(state.detach(), tensors, path)}
    if isinstance(state, np.ndarray | np.generic):
        tensor = torch.from_numpy(np.array(state))
        return {"__kind__": "array", "value": _keep(tensor, tensors, path)}
    if isinstance(state, list):
        return [pack(value, tensors, f"{path}.{i}") for i, value in enumerate(state)]
    if isinstance(state, tuple):
        return {"__kind__": "tuple", "value": pack(list(state), tensors, path)}
    if isinstance(state, set | frozenset):
        return {"__kind__": "set", "value": pack(sorted(state), tensors, path)}
    if isinstance(state, dict):
        packed = [(key, pack(value, tensors, f"{path}.{key}")) for key, value in state.items()]
        if all(isinstance(key, str) and key != "__kind__" for key in state):
            return dict(packed)
        # JSON would turn other keys into strings.
        return {"__kind__": "dict", "value": [[pack(k, tensors, path), v] for k, v in packed]}
    raise TypeError(
        f"{path} is a {type(state).__name__}; a checkpoint holds tensors, arrays, numbers, strings "
        "and lists, tuples, sets and dictionaries of these"
    )


def unpack(packed: Any, tensors: dict[str, Tensor]) -> Any:
    """The state that :func:`pack` was given.

    >>> unpack({"__kind__": "tuple", "value": [0.9, 0.99]}, {})
    (0.9, 0.99)
    """
    if isinstance(packed, list):
        return [unpack(value, tensors) for value in packed]
    if not isinstance(packed, dict):
        return packed
    if "__kind__" not in packed:
        return {key: unpack(value, tensors) for key, value in packed.items()}
    kind, value = packed["__kind__"], packed["value"]
    if kind == "tensor":
        return tensors[value]
    if kind == "array":
        return tensors[value].numpy()
    if kind == "tuple":
        return tuple(unpack(value, tensors))
    if kind == "set":
        return set(unpack(value, tensors))
    if kind == "dict":
        return {unpack(key, tensors): unpack(entry, tensors) for key, entry in value}
    raise ValueError(f"a checkpoint holds {', '.join(KINDS)}, not {kind!r}")


def _keep(tensor: Tensor, tensors: dict[str, Tensor], path: str) -> str:
    # Keys may hold dots themselves, as names of parameters do, so two paths can read the same.
    name = path if path not in tensors else f"{path}#{len(tensors)}"
    tensors[name] = tensor
    return name


def storable(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors on the CPU, none of which shares memory with another."""
    stored_as: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        stored = tensor.cpu().contiguous()
        address = stored.untyped_storage().data_ptr()
        if address in seen:
            stored = stored.clone(memory_format=torch.contiguous_format)
        seen.add(address)
        stored_as[name] = stored
    return stored_as
