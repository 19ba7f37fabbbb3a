"""Progress display: one bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from tqdm import tqdm

from rebll_avalanche.distributed.ranks import world_size
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.running.recorder import all_terms


class ProgressPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Progress bar with experience, epoch, loss terms, images per second and time left.

    Args:
        benchmark: The benchmark whose training stream is learned.
        label: Text in front, such as the method's name.
    """

    def __init__(self, benchmark: Any, *, label: str = "") -> None:
        super().__init__()
        self._label = label
        self._sizes = [len(experience.dataset) for experience in benchmark.train_stream]
        self._bar: Any = None
        self._where = ""

    def before_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Show the experience and epoch; on the first call, draw the bar."""
        experience = strategy.experience.current_experience
        epoch = strategy.clock.train_exp_epochs
        done = (
            sum(self._sizes[:experience]) * strategy.train_epochs + self._sizes[experience] * epoch
        )
        if self._bar is None:
            total = sum(self._sizes) * strategy.train_epochs
            self._bar = tqdm(total=total, initial=done, unit="img", dynamic_ncols=True, leave=False)
        self._where = (
            f"{self._label} experience {experience + 1}/{len(self._sizes)} "
            f"epoch {epoch + 1}/{strategy.train_epochs}"
        ).strip()
        self._bar.set_description(self._where, refresh=False)
        self._bar.n = done

    def after_training_iteration(self, strategy: Strategy, **kwargs: Any) -> None:
        """Advance the bar; loss values are fetched only when it is redrawn."""
        shown = self._bar.last_print_t
        # One bar for all ranks, whose batches are as large as this one's, and so are their losses.
        ranks = world_size()
        self._bar.update(ranks * len(strategy.mb_x))
        if self._bar.last_print_t != shown:
            values = {
                name: f"{ranks * float(value):.3f}"
                for terms in all_terms(strategy)
                for name, value in terms.last.items()
            }
            self._bar.set_postfix(values, refresh=False)

    def before_eval(self, strategy: Strategy, **kwargs: Any) -> None:
        """Show that evaluation is under way."""
        if self._bar is not None:
            self._bar.set_description(f"{self._where}, evaluating")

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


class EpochReports(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Report the progress of a run at every epoch.

    Args:
        tell: Called with a text.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def before_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Report the experience and epoch."""
        experience = strategy.experience
        self._tell(
            f"experience {experience.current_experience + 1}/{len(experience.origin_stream)} "
            f"epoch {strategy.clock.train_exp_epochs + 1}/{strategy.train_epochs}"
        )

    def close(self) -> None:
        """Nothing is open."""


def on_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()
