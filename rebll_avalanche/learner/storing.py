"""The parts of a learner that its file holds, and the checks when they come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.learner.file import read_learner, write_learner
from rebll_avalanche.learner.judging import check_precision
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.methods import check_can_go_on
from rebll_avalanche.learner.predicting import build_learned, probabilities, side_of
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.picture_store import PictureStore
from rebll_avalanche.running.environment import versions


@dataclass(frozen=True, eq=False)
class Stored:
    """What a file holds.

    Attributes:
        config: Of the learner.
        precision: That thresholds keep.
        know: What was learned.
        before: What was known before the last lesson, for methods that train.
        backbone_hash: Of the backbone's weights, if they were ever loaded.
        backbone_weights: These weights, if the file is self-contained.
    """

    config: Config
    precision: float | None
    know: Knowledge
    before: Knowledge | None = None
    backbone_hash: str | None = None
    backbone_weights: dict[str, Tensor] | None = None

    def write(self, path: Path) -> None:
        """Write the file; the old one stays until the new one is complete."""
        write_learner(
            path,
            {
                "config": self.config.to_dict(),
                "precision": self.precision,
                "know": self.know.to_dict(),
                "before": None if self.before is None else self.before.to_dict(),
                "backbone_sha256": self.backbone_hash,
                "backbone": self.backbone_weights,
                "versions": versions(),
            },
        )


def read_stored(path: Path) -> tuple[Stored, MultiLabelModel | None]:
    """What :meth:`Stored.write` wrote, and the head that was learned, if any.

    Raises:
        DamagedError: When the file is no learner, or its bytes are not those that were written.
    """
    state = read_learner(path)
    maker = state.get("versions", {}) if isinstance(state, dict) else {}
    version = maker.get("rebll-avalanche", "unknown") if isinstance(maker, dict) else ""
    try:
        with fitting(f"what it holds, which was written by version {version},"):
            stored = _from_state(state)
            return stored, checked_network(stored.config, stored.know)
    except DamagedError as error:
        raise DamagedError(f"{path}: {error}") from error


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Refuse what a file holds if it cannot be used: a forged state can fail anywhere, with any error.

    Args:
        what: Names it in the message.

    Raises:
        DamagedError: For every error but this package's own and those of the system.
    """
    try:
        yield
    except (RebllError, OSError, MemoryError):
        raise
    except Exception as error:
        raise DamagedError(
            f"{what} does not fit this version of rebll-avalanche; take a copy of the file, or teach a "
            f"new one. ({type(error).__name__}: {str(error)[:200]})"
        ) from error


def _from_state(state: dict[str, Any]) -> Stored:
    config = Config.from_dict(state["config"])
    check_can_go_on(config)
    before = state["before"]
    check_precision(state["precision"])
    return Stored(
        config=config,
        precision=state["precision"],
        know=Knowledge.from_dict(state["know"]),
        before=None if before is None else Knowledge.from_dict(before),
        backbone_hash=state["backbone_sha256"],
        backbone_weights=state["backbone"],
    )


def checked_network(config: Config, know: Knowledge) -> MultiLabelModel | None:
    """The network, after one question: what does not fit is found here, not when somebody asks.

    Raises:
        DamagedError: When it does not answer for its classes.
    """
    if know.taught is None:
        return None
    network = build_learned(config, know)
    side = side_of(config)
    # Vectors of a frozen backbone are compared with this shape when that is built.
    frozen = config.benchmark.features is not None
    shape = know.taught["input_shape"] if frozen else (3, side, side)
    answer = probabilities(network, torch.zeros(1, *shape))
    if answer.shape != (1, len(know.class_names)) or not bool(answer.isfinite().all()):
        raise DamagedError("its head does not answer for its classes")
    for kept in know.taught["kept"].values():
        if not isinstance(kept, Tensor):
            PictureStore.from_dict(kept)  # raises if these are no pictures
    return network


def to_go_on(end: dict[str, Any]) -> dict[str, Any]:
    """What a lesson goes on with at the end of an experience.

    Args:
        end: Result of :func:`~rebll_avalanche.checkpointing.memory_images.with_own_images`.
    """
    strategy = end["strategy"]
    # The next experience starts the optimizer's moments anew.
    return {
        "strategy": strategy | {"optimizer": strategy["optimizer"] | {"moments": {}}},
        "kept": end["memory_images"],
        "kept_labels": end.get("memory_labels", {}),  # runs of earlier versions have none
    }
