"""Checkpoints on disk: written to a temporary name and renamed, verified by hash when read."""

from __future__ import annotations

import errno
import json
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rebll_avalanche.checkpointing.state import pack, storable, unpack
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.files import file_hash, remove_folder, replacing_folder, sweep_drafts

TENSORS, STATE, HASHES = "tensors.safetensors", "state.json", "sha256.json"
# Errors raised by damaged or forged checkpoints; reading them never runs code.
UNREADABLE = (
    *(OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError),
    SafetensorError,
)


@dataclass(frozen=True, order=True)
class Moment:
    """The time of a checkpoint in a run: after ``epoch`` epochs of ``experience``.

    ``END`` as the epoch means that the experience is finished: trained, evaluated, results written.
    """

    experience: int
    epoch: int

    END = 10**6

    @property
    def folder(self) -> str:
        """The name of its folder; names sort chronologically."""
        epoch = "end" if self.ended else f"{self.epoch:05d}"
        return f"experience-{self.experience:04d}-{epoch}"

    @property
    def ended(self) -> bool:
        """Whether the experience is finished."""
        return self.epoch == self.END

    @classmethod
    def of(cls, folder: str) -> Moment:
        """Parse the moment from a folder name."""
        _, experience, epoch = folder.split("-")
        return cls(int(experience), cls.END if epoch == "end" else int(epoch))


@dataclass(frozen=True)
class ResumePoint:
    """The state from which a run resumes.

    Attributes:
        moment: The newest checkpoint's moment; ``None`` before the first.
        end: The state at the end of the last finished experience; empty before the first.
        epoch: The state after the last finished epoch of the current experience; empty between two.
    """

    moment: Moment | None
    end: dict[str, Any]
    epoch: dict[str, Any]

    @property
    def configuration(self) -> dict[str, Any]:
        """The settings of the run that saved this; empty if saved by an earlier version."""
        return dict((self.epoch or self.end).get("configuration", {}))


class CheckpointFolder:
    """The checkpoints of one run.

    It keeps the ends of the last two experiences and the last two epochs after them, as a fallback
    when the newest is damaged.

    Args:
        path: The folder, created with the first checkpoint.
        configuration: The settings of the run, stored in every checkpoint, so that they can be checked
            even if ``config.yaml`` is lost.
    """

    def __init__(self, path: Path, configuration: dict[str, Any] | None = None) -> None:
        self.path = path
        self.configuration = configuration or {}

    def moments(self) -> list[Moment]:
        """Moments of all checkpoints, oldest first."""
        moments = []
        for entry in self.path.glob("experience-*-*"):
            with suppress(ValueError):  # a user's copy under another name
                moments.append(Moment.of(entry.name))
        return sorted(moments)

    def save(self, moment: Moment, state: dict[str, Any]) -> None:
        """Write a checkpoint atomically.

        Raises:
            OSError: When the disk is full; earlier checkpoints stay.
        """
        tensors: dict[str, Tensor] = {}
        owner = {"configuration": self.configuration} if self.configuration else {}
        text = json.dumps(pack(state | owner, tensors))
        self.path.mkdir(parents=True, exist_ok=True)
        with replacing_folder(self.path / moment.folder) as draft:
            _save_tensors(storable(tensors), draft / TENSORS)
            (draft / STATE).write_text(text)
            hashes = {name: file_hash(draft / name) for name in (TENSORS, STATE)}
            (draft / HASHES).write_text(json.dumps(hashes))
        self._prune()

    def _prune(self) -> None:
        moments = self.moments()
        ends = [moment for moment in moments if moment.ended][-2:]
        epochs = [moment for moment in moments if not ends or moment > ends[-1]][-2:]
        self._keep({*ends, *epochs})

    def sweep(self) -> None:
        """Remove half-written and outdated checkpoints that a killed process left."""
        sweep_drafts(self.path)
        self._prune()

    def keep_newest(self) -> None:
        """Delete all but the newest, after a run is finished; if it is damaged, others may help."""
        moments = self.moments()
        if len(moments) < 2:
            return
        try:
            self.load(moments[-1])
        except DamagedError as error:
            warnings.warn(f"{error}; older ones are kept", stacklevel=2)
        else:
            self._keep({moments[-1]})

    def _keep(self, keep: set[Moment]) -> None:
        for moment in self.moments():
            if moment not in keep:
                remove_folder(self.path / moment.folder)

    def load(self, moment: Moment) -> dict[str, Any]:
        """Read a checkpoint.

        Raises:
            DamagedError: When its files changed since they were written.
        """
        folder = self.path / moment.folder
        try:
            hashes = json.loads((folder / HASHES).read_text())
            damaged = [
                name for name in (TENSORS, STATE) if file_hash(folder / name) != hashes[name]
            ]
            if not damaged:
                state: dict[str, Any] = unpack(
                    json.loads((folder / STATE).read_text()), load_file(folder / TENSORS)
                )
                return state
            problem = f"{' and '.join(damaged)} changed since they were written"
        except UNREADABLE as error:
            problem = f"{type(error).__name__}: {error}"
        raise DamagedError(f"the checkpoint {folder.name} is damaged: {problem}")

    def newest(self) -> ResumePoint:
        """The state from which a run resumes; damaged checkpoints are reported and skipped.

        Raises:
            DamagedError: When there are checkpoints and all are damaged.
        """
        moments = self.moments()
        for moment in reversed(moments):
            try:
                state = self.load(moment)
                if moment.ended:
                    return ResumePoint(moment, state, {})
                before = Moment(moment.experience - 1, Moment.END)
                return ResumePoint(moment, self.load(before) if moment.experience else {}, state)
            except DamagedError as error:
                warnings.warn(f"{error}; an older one is used", stacklevel=2)
        if moments:
            raise DamagedError(
                f"every checkpoint in {self.path} is damaged; delete that folder to start over"
            )
        return ResumePoint(None, {}, {})


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # raised for a full or failing disk
        full = "os error 28" in str(error) or "No space left" in str(error)
        number = errno.ENOSPC if full else errno.EIO
        raise OSError(number, os.strerror(number), str(path.parent)) from error
