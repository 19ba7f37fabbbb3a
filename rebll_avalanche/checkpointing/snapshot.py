"""The whole state of a strategy as plain containers of tensors, and back."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rebll_avalanche.checkpointing.foreign import with_state
from rebll_avalanche.checkpointing.state import pack
from rebll_avalanche.memory import Memory
from rebll_avalanche.protocols import Strategy, Stream


def capture(strategy: Strategy, stream: Stream) -> dict[str, Any]:
    """Capture model, optimizer, plugins, metrics, counters and random state of a strategy.

    Args:
        strategy: Any Avalanche strategy.
        stream: The training stream; replay images are saved as references into it.
    """
    return {
        "model": strategy.model.state_dict(),
        "optimizer": _optimizer_state(strategy.optimizer, strategy.model),
        "plugins": {name: part.state_dict() for name, part in stateful(strategy, stream).items()},
        "clock": dict(vars(strategy.clock)),
        "random": random_state(),
    }


def restore(
    strategy: Strategy, stream: Stream, state: dict[str, Any], *, under_way: bool = False
) -> None:
    """Put a strategy into a captured state.

    Args:
        strategy: A strategy built in the same way as the captured one.
        stream: The training stream.
        state: The result of :func:`capture`.
        under_way: Whether the experience has begun: its hooks have rebuilt teacher, memory and
            schedule from the state at the end of the last one. Parts already in the captured state
            are then left alone.
    """
    strategy.model.load_state_dict(state["model"])
    _load_optimizer(strategy.optimizer, strategy.model, state["optimizer"])
    strategy.optimized_param_id = dict(strategy.model.named_parameters())
    for name, part in stateful(strategy, stream).items():
        wanted = state["plugins"][name]
        if under_way and _same(part.state_dict(), wanted):
            continue
        part.load_state_dict(wanted)
        memory = getattr(part, "memory", None)
        if under_way and isinstance(memory, Memory):
            memory.bind(strategy.experience)
    vars(strategy.clock).update(state["clock"])
    set_random_state(state["random"])


def stateful(strategy: Strategy, stream: Stream) -> dict[str, Any]:
    """All parts with state: plugins and metrics, by class name and a running number."""
    named: dict[str, Any] = {}
    numbers: Counter[str] = Counter()
    for part in (strategy, *strategy.plugins, *strategy.evaluator.metrics):
        giving = with_state(part, strategy, stream)
        if giving is not None:
            name = type(part).__name__
            named[f"{name}-{numbers[name]}"] = giving
            numbers[name] += 1
    return named


def random_state() -> dict[str, Any]:
    """State of Python's, numpy's and torch's random number generators."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - the state that exists, not a new one
    return {
        "python": random.getstate(),
        "numpy": (kind, [int(key) for key in keys], *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore a state from :func:`random_state`."""
    random.setstate(state["python"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def _optimizer_state(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """Groups and moments by parameter name, because the order of parameters depends on head growth."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = []
    for group in optimizer.param_groups:
        strangers = [p for p in group["params"] if id(p) not in names]
        if strangers:
            raise ValueError(
                f"the optimizer holds {len(strangers)} parameters that are not the model's, "
                "so a checkpoint could not find them again; make them part of the model"
            )
        groups.append({**group, "params": [names[id(p)] for p in group["params"]]})
    moments = {names[id(p)]: dict(entry) for p, entry in optimizer.state.items() if entry}
    return {"groups": groups, "moments": moments}


def _load_optimizer(
    optimizer: torch.optim.Optimizer, model: nn.Module, state: dict[str, Any]
) -> None:
    parameters = dict(model.named_parameters())
    optimizer.param_groups[:] = [
        {**group, "params": [parameters[name] for name in group["params"]]}
        for group in state["groups"]
    ]
    optimizer.state = defaultdict(dict)
    for name, entry in state["moments"].items():
        parameter = parameters[name]
        optimizer.state[parameter] = {
            # Moments go to their parameter's device; step counters stay on the CPU.
            key: value.to(parameter.device)
            if isinstance(value, Tensor) and value.shape == parameter.shape
            else value
            for key, value in entry.items()
        }


def _same(first: Any, second: Any) -> bool:
    tensors: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    if pack(first, tensors[0]) != pack(second, tensors[1]):
        return False
    return all(_equal(value.cpu(), tensors[1][name]) for name, value in tensors[0].items())


def _equal(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    unequal = first != second
    if first.is_floating_point():  # NaN (an unknown label) counts as equal to itself
        unequal &= ~(first.isnan() & second.isnan())
    return not bool(unequal.any())
