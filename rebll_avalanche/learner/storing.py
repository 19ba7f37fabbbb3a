"""The content of a learner's file, and its checks on loading."""

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
    """Content of a learner's file.

    Attributes:
        config: Configuration of the learner.
        precision: Precision that thresholds keep; None for the best F1.
        know: The knowledge.
        before: The knowledge before the last lesson, for methods that train.
        backbone_hash: Hash of the backbone's weights, if they were loaded.
        backbone_weights: Weights of the backbone, if the file is self-contained.
    """

    config: Config
    precision: float | None
    know: Knowledge
    before: Knowledge | None = None
    backbone_hash: str | None = None
    backbone_weights: dict[str, Tensor] | None = None

    def write(self, path: Path) -> None:
        """Write the file atomically."""
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
    """Read a file, and build the learned network, if any.

    Raises:
        DamagedError: When the file is not a learner, or was modified.
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
def fitting(what: str, kind: type[Exception] = Exception) -> Iterator[None]:
    """Turn any error inside the block into a DamagedError: forged states fail in many ways.

    Args:
        what: The state's name in the message.
        kind: The errors that mean that it does not fit.

    Raises:
        DamagedError: For errors of this kind, but not this package's own and those of the system.
    """
    try:
        yield
    except (RebllError, OSError, MemoryError):
        raise
    except kind as error:
        raise DamagedError(
            f"{what} does not fit this version of rebll-avalanche; restore a copy of the file, or teach a "
            f"new learner. ({type(error).__name__}: {str(error)[:200]})"
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
    """Build the network and evaluate it once, so that a state that does not fit is refused on loading.

    Raises:
        DamagedError: When its outputs do not match its classes.
    """
    if know.taught is None:
        return None
    network = build_learned(config, know)
    side = side_of(config)
    # A frozen backbone is compared with this shape when it is built.
    frozen = config.benchmark.features is not None
    shape = know.taught["input_shape"] if frozen else (3, side, side)
    answer = probabilities(network, torch.zeros(1, *shape))
    if answer.shape != (1, len(know.class_names)) or not bool(answer.isfinite().all()):
        raise DamagedError("its head does not answer for its classes")
    for kept in know.taught["kept"].values():
        if not isinstance(kept, Tensor):
            PictureStore.from_dict(kept)  # raises if these are not pictures
    return network


def to_go_on(end: dict[str, Any]) -> dict[str, Any]:
    """The part of a checkpoint that the next lesson continues from.

    Args:
        end: Result of :func:`~rebll_avalanche.checkpointing.memory_images.with_own_images`.
    """
    strategy = end["strategy"]
    # The next experience resets the optimizer's moments.
    return {
        "strategy": strategy | {"optimizer": strategy["optimizer"] | {"moments": {}}},
        "kept": end["memory_images"],
        "kept_labels": end.get("memory_labels", {}),  # missing in runs of earlier versions
    }
