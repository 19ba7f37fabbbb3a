"""Train a lesson as one experience of an Avalanche strategy: restore, train, capture.

The only module of this package that needs Avalanche; prediction does not import it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor

from rebll_avalanche.benchmarks.images import Source
from rebll_avalanche.checkpointing.foreign import unsaved
from rebll_avalanche.checkpointing.memory_images import kept_sources, with_own_images
from rebll_avalanche.checkpointing.snapshot import (
    capture,
    random_state,
    restore,
    set_random_state,
)
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner.predicting import side_of
from rebll_avalanche.learner.storing import fitting, to_go_on
from rebll_avalanche.learner.stream import LessonStream
from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.plugins.divergence import DivergencePlugin
from rebll_avalanche.running.build import build_strategy
from rebll_avalanche.running.environment import seed_everything
from rebll_avalanche.running.network import build_network
from rebll_avalanche.running.progress import ProgressPlugin, on_terminal


def teach(
    config: Config,
    before: dict[str, Any] | None,
    inputs: Source,
    labels: Tensor,
    keys: Sequence[int],
    num_new: int,
) -> dict[str, Any]:
    """Train on one more lesson.

    Args:
        config: Configuration of the learner.
        before: Result of the last call; not changed.
        inputs: Inputs of the network: vectors, or pictures.
        labels: ``[pictures, classes]`` of 1, 0 and NaN, with columns for all classes so far.
        keys: A unique number per picture.
        num_new: Number of new classes, which are the last columns.

    Returns:
        ``strategy`` (model, plugins, memory), ``kept`` (the inputs that memory refers to, by lesson),
        ``kept_labels`` (their labels in that lesson), ``sizes`` (new classes of each lesson),
        ``input_shape`` (of the network), ``ridge`` (options of the closed form).
    """

    def going_on(kind: type[Exception] = Exception) -> AbstractContextManager[None]:
        return fitting("what it keeps of earlier lessons", kind) if before else nullcontext()

    outside = random_state()
    try:
        seed_everything(config.seed)
        sizes = [*(before["sizes"] if before else []), num_new]
        side = side_of(config)
        if config.benchmark.missing == "negative":
            labels = labels.nan_to_num(0.0)
        with going_on():
            kept = kept_sources(before["kept"] if before else {})
            kept_labels = before["kept_labels"] if before else {}
            stream = LessonStream(sizes, kept, kept_labels, inputs, labels, keys, side)
        shape = tuple(stream.train_stream[-1].dataset.eval()[0][0].shape)
        model = build_network(config, shape, pretrained=before is None)
        strategy = build_strategy(config, model, stream, Path())
        if lost := unsaved(strategy):
            raise RebllError(f"{config.method_name} cannot go on: {', '.join(lost)} keeps no state")
        if before:
            with going_on():
                # A copy, because plugins modify the tensors they are given.
                restore(strategy, stream.train_stream, copy.deepcopy(before["strategy"]))
        strategy.plugins.append(DivergencePlugin())
        watcher = ProgressPlugin(stream, label=config.method_name) if on_terminal() else None
        if watcher is not None:
            strategy.plugins.append(watcher)
        try:
            # Only what looks something up that is not there: other errors are not the state's.
            with going_on(LookupError):
                strategy.train(stream.train_stream[-1])
        finally:
            if watcher is not None:
                watcher.close()
                strategy.plugins.remove(watcher)
        captured = capture(strategy, stream.train_stream)
        solved = [p.learner.options for p in strategy.plugins if isinstance(p, ClosedFormPlugin)]
        return {
            **to_go_on(with_own_images(captured, stream.train_stream, side)),
            "sizes": sizes,
            "input_shape": list(shape),
            "ridge": dict(solved[0]) if solved else {},
        }
    finally:
        set_random_state(outside)
