"""How a network is computed, where a recipe leaves it open: found out by a few steps before a run.

Memory layout and compilation change results by rounding only. What is faster depends on the network and
on the machine, so some steps of each are timed on a copy of the network, with random numbers of its own:
the run's weights and random numbers stay as they are. The choice is written into the run's configuration,
where a resumed run finds it. Precision is not chosen here: bfloat16 changes more than roundings.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.running.network import set_up_speed

# Shorter runs would not repay the measurement; they take what is mostly faster, without looking at a clock.
FEWEST_STEPS = 500
# Nor would these repay a compiler, which takes minutes for training, evaluation and teacher.
SHORTEST_TO_COMPILE = 1800.0
COMPILATIONS = 4
# What is faster by less than this is not worth another rounding from machine to machine.
WORTH = 0.9
ROUNDS = 3


def as_recorded(config: Config, record: Mapping[str, Any]) -> Config:
    """A configuration with what was found out when the run began.

    Args:
        config: As it is asked for now.
        record: The content of the run's ``config.yaml``.
    """
    training = config.training
    saved = Config.from_dict(record).training
    for name in ("channels_last", "compile"):
        if getattr(training, name) is None:
            training = replace(training, **{name: getattr(saved, name)})
    return replace(config, training=training)


def with_choice(
    config: Config, model: MultiLabelModel, shape: tuple[int, ...], experiences: Iterable[Any]
) -> tuple[Config, dict[str, float]]:
    """A configuration that leaves nothing open, and milliseconds per step of what was tried.

    Args:
        config: As asked for.
        model: Just built; it is set up as chosen.
        shape: Of one input.
        experiences: What will be trained.
    """
    tried: dict[str, float] = {}
    training = config.training
    images = sum(len(experience.dataset) for experience in experiences)
    steps = training.epochs * images // training.batch_size
    layout, compiled = training.channels_last, training.compile
    worth_it = training.tuning == "auto" and steps >= FEWEST_STEPS and len(shape) == 3
    if worth_it and model.channels_last and layout is None:
        tried = _milliseconds(model, (training.batch_size, *shape), [True, False])
        layout = not tried["contiguous"] < WORTH * tried["channels last"]
    if layout is None:
        layout = model.channels_last
    if worth_it and tried and compiled is None:
        # A step also shows memory to the network and the batch to a teacher.
        best = min(tried.values()) / 1000
        if 2 * best * steps > SHORTEST_TO_COMPILE:
            compiled = _repays(model, (training.batch_size, *shape), layout, best, steps, tried)
    training = replace(training, channels_last=layout, compile=bool(compiled))
    config = replace(config, training=training)
    set_up_speed(model, training)
    return config, tried


def _milliseconds(
    model: MultiLabelModel, shape: tuple[int, ...], layouts: list[bool]
) -> dict[str, float]:
    """The fastest step in each layout, taken in turns."""
    steps = {layout: _step_of(model, shape, layout) for layout in layouts}
    times = {
        layout: min(_seconds(step) for _ in range(ROUNDS + 1)) for layout, step in steps.items()
    }
    return {_name(layout): round(1000 * seconds, 2) for layout, seconds in times.items()}


def _name(channels_last: bool) -> str:
    return "channels last" if channels_last else "contiguous"


def _repays(
    model: MultiLabelModel,
    shape: tuple[int, ...],
    layout: bool,
    best: float,
    steps: int,
    tried: dict[str, float],
) -> bool:
    """Whether what compiled steps save is more than what compiling takes."""
    step = _step_of(model, shape, layout, compiled=True)
    try:
        first = _seconds(step)
    except Exception:  # without a C++ compiler, for one
        return False
    later = min(_seconds(step) for _ in range(ROUNDS))
    tried["compiled"] = round(1000 * later, 2)
    return later < WORTH * best and (best - later) * steps > COMPILATIONS * first


def _step_of(
    model: MultiLabelModel, shape: tuple[int, ...], layout: bool, *, compiled: bool = False
) -> Callable[[], None]:
    """A forward and a backward pass of a copy."""
    with torch.random.fork_rng(devices=[]):  # a head that grows draws numbers
        trial = copy.deepcopy(model).train()
        if not trial.num_classes:
            trial.head.grow(2)
    trial.channels_last = layout
    if compiled:
        trial.backbone.compile()
    images = torch.rand(shape, generator=torch.Generator().manual_seed(0))

    def step() -> None:
        trial.zero_grad()
        trial(images).square().mean().backward()

    return step


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):  # dropout draws too
        work()
    return time.perf_counter() - start
