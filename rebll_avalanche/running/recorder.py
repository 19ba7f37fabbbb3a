"""Record training statistics: loss terms, time, memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.distributed.ranks import total_of
from rebll_avalanche.plugins.terms import LossTerms
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.stateful import Stateful


def all_terms(strategy: Strategy) -> Iterator[LossTerms]:
    """The loss terms of all plugins, each once."""
    seen = set()
    for plugin in strategy.plugins:
        terms = getattr(plugin, "terms", None)
        if isinstance(terms, LossTerms) and id(terms) not in seen:
            seen.add(id(terms))
            yield terms


class Recorder(Stateful, SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Record the mean of every loss term per epoch, and images and seconds per experience.

    Attributes:
        terms: The total loss as ``total``, for every method.
        loss_terms: One value per epoch of the current experience, by term.
        images: Training images seen in this experience.
        training_seconds: Time spent in its epochs.
        trainable_parameters: Number of parameters that receive a gradient.
    """

    stored = ("loss_terms", "images", "training_seconds", "trainable_parameters")

    def __init__(self) -> None:
        super().__init__()
        self.terms = LossTerms()
        self.loss_terms: dict[str, list[float]] = {}
        self.images = 0
        self.training_seconds = 0.0
        self.trainable_parameters = 0
        self._epoch_started = 0.0
        self._images_of_epoch = 0

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Reset the statistics of the experience."""
        self.loss_terms, self.images, self.training_seconds = {}, 0, 0.0
        self.trainable_parameters = 0

    def before_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Reset the means."""
        for terms in all_terms(strategy):
            terms.reset()
        self._epoch_started = time.perf_counter()
        self._images_of_epoch = 0

    def after_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Count the trainable parameters, once per experience."""
        if not self.trainable_parameters:
            self.trainable_parameters = sum(
                parameter.numel()
                for parameter in strategy.model.parameters()
                if parameter.grad is not None
            )

    def after_training_iteration(self, strategy: Strategy, **kwargs: Any) -> None:
        """Record the total loss."""
        self.terms.record("total", strategy.loss.squeeze())
        self._images_of_epoch += len(strategy.mb_x)

    def after_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Record the means of the epoch."""
        for terms in all_terms(strategy):
            for name, mean in terms.means().items():
                self.loss_terms.setdefault(name, []).append(mean)
        self.images += total_of(self._images_of_epoch)
        self.training_seconds += time.perf_counter() - self._epoch_started

    def page(self) -> dict[str, Any]:
        """The training statistics of this experience for the result files."""
        seconds = max(self.training_seconds, 1e-9)
        return {
            "loss_terms": self.loss_terms,
            "seconds": self.training_seconds,
            "images_per_second": self.images / seconds,
            "peak_memory_bytes": peak_memory(),
            "trainable_parameters": self.trainable_parameters,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where the state was taken."""
        super().load_state_dict({"trainable_parameters": 0} | state)  # not in earlier versions


def peak_memory() -> int:
    """Peak memory so far in bytes: of the GPU if there is one, else of the process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    memory = psutil.Process().memory_info()
    if hasattr(memory, "peak_wset"):  # Windows
        return int(memory.peak_wset)
    import resource  # on other systems psutil reports current memory only

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(used if sys.platform == "darwin" else used * 1024)
