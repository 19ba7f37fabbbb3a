"""Resume a stopped run from the last finished epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder, Moment
from rebll_avalanche.checkpointing.snapshot import capture, restore
from rebll_avalanche.distributed.ranks import is_first
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.protocols import Strategy, Stream
from rebll_avalanche.run_files import CONFIG


def restore_from(
    folder: Path,
    strategy: Strategy,
    stream: Stream,
    state: dict[str, Any],
    *,
    under_way: bool = False,
) -> None:
    """:func:`restore` what was read from a folder.

    Raises:
        DamagedError: When it does not fit the strategy, with the way out.
    """
    try:
        restore(strategy, stream, state, under_way=under_way)
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise DamagedError(
            f"the checkpoint in {folder} does not fit this run, probably because another version of "
            f"rebll-avalanche wrote it; finish it with that version, which its {CONFIG} names, or begin "
            f"again with --start-over. ({type(error).__name__}: {error})"
        ) from error


class CheckpointPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Save a checkpoint after every epoch; in a resumed experience, skip the finished epochs.

    Must be the last plugin: it then saves the state after all others, and they do not overwrite what
    it restores. A resumed experience starts from the state at the end of the previous one, so that its
    hooks build the same head, teacher, data loader and schedule; then the state after the last finished
    epoch is restored.

    Args:
        folder: The folder of checkpoints.
        stream: The training stream.
        under_way: The state after the last finished epoch of the next experience, if it has begun.
        epochs_done: Number of its finished epochs.
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
        """Restore the state after the last finished epoch."""
        if not self._under_way:
            return
        folder = self.folder.path.parent
        restore_from(folder, strategy, self.stream, self._under_way, under_way=True)
        # Avalanche reads the number of epochs once, right after this hook.
        self._all_epochs = strategy.train_epochs
        strategy.train_epochs -= self._epochs_done
        self._under_way = {}

    def before_training_epoch(self, strategy: Strategy, **kwargs: Any) -> None:
        """Restore the strategy's number of epochs."""
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
