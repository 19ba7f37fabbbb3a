"""Choose memory layout and compilation by timing a few steps before a run, unless the recipe sets them.

Both change results by rounding only. Which is faster depends on the network and on the machine, so some
steps of each are timed on a copy of the network with a separate random number generator: the run's weights
and random numbers are not affected. The choice is written to the run's configuration, so that a resumed
run uses it too. Precision is not chosen here: bfloat16 changes more than rounding.
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

# Shorter runs would not repay the measurement; they use what is usually faster.
FEWEST_STEPS = 500
# Runs below this many seconds would not repay compiling, which takes minutes for training, evaluation
# and teacher.
SHORTEST_TO_COMPILE = 1800.0
COMPILATIONS = 4
# A smaller speed-up than this does not justify rounding that differs between machines.
WORTH = 0.9
ROUNDS = 3


def as_recorded(config: Config, record: Mapping[str, Any]) -> Config:
    """Fill in the choices made when the run began.

    Args:
        config: The requested configuration.
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
    """Return a complete configuration, and the milliseconds per step of each option tried.

    Args:
        config: The requested configuration.
        model: The new model; the choice is applied to it.
        shape: Shape of one input.
        experiences: The training stream.
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
        # A training step also processes replayed images and the teacher's forward pass.
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
    """The fastest step in each layout."""
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
    """Whether compiled steps save more time than compiling takes."""
    step = _step_of(model, shape, layout, compiled=True)
    try:
        first = _seconds(step)
    except Exception:  # for example without a C++ compiler
        return False
    later = min(_seconds(step) for _ in range(ROUNDS))
    tried["compiled"] = round(1000 * later, 2)
    return later < WORTH * best and (best - later) * steps > COMPILATIONS * first


def _step_of(
    model: MultiLabelModel, shape: tuple[int, ...], layout: bool, *, compiled: bool = False
) -> Callable[[], None]:
    """A function that runs a forward and a backward pass on a copy of the model."""
    with torch.random.fork_rng(devices=[]):  # growing the head draws random numbers
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
    with torch.random.fork_rng(devices=[]):  # dropout draws random numbers too
        work()
    return time.perf_counter() - start
