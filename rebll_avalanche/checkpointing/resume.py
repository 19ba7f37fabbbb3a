"""Stop at any moment, go on from the last finished epoch."""

from __future__ import annotations

from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder, Moment
from rebll_avalanche.checkpointing.snapshot import capture, restore
from rebll_avalanche.distributed.ranks import is_first
from rebll_avalanche.protocols import Strategy, Stream


class CheckpointPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Saves after every epoch; in an experience under way, skips the epochs that are done.

    Must be the last plugin: what it saves is then the state after all others, and what it restores
    is not overwritten by them. The experience under way begins as it did the first time, from the
    state at the end of the one before, so that its hooks build the same head, teacher, data loader
    and schedule; only then the state after the last finished epoch takes over.

    Args:
        folder: Where checkpoints go.
        stream: The training stream.
        under_way: The state after the last finished epoch of the next experience, if it has begun.
        epochs_done: How many of its epochs are finished.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        stream: Stream,
        *,
        under_way: dict[str, Any],
        epochs_done: int,
    ) -> None:
        super().__init__()
        self.folder = folder
        self.stream = stream
        self._under_way = under_way
        self._epochs_done = epochs_done
        self._all_epochs: int | None = None

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Jump to the last finished epoch."""
        if not self._under_way:
            return
        restore(strategy, self.stream, self._under_way, under_way=True)
        # Avalanche reads the number of epochs once, right after this hook.
        self._all_epochs = strategy.train_epochs
        strategy.train_epochs -= self._epochs_done
        self._under_way = {}

    def before_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Let everybody see the whole number of epochs again."""
        self._restore_epochs(strategy)

    def after_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Save, as the first of all ranks."""
        if not is_first():
            return
        moment = Moment(strategy.experience.current_experience, strategy.clock.train_exp_epochs)
        self.folder.save(moment, capture(strategy, self.stream))

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """For an experience that was stopped after its last epoch."""
        self._restore_epochs(strategy)

    def _restore_epochs(self, strategy: Strategy) -> None:
        if self._all_epochs is not None:
            strategy.train_epochs, self._all_epochs = self._all_epochs, None
