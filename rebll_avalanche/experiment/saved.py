"""A run that was saved, ready to be asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rebll_avalanche.experiment.build import build_network
from rebll_avalanche.experiment.checkpoint import CheckpointFolder
from rebll_avalanche.experiment.config import Config
from rebll_avalanche.models import MultiLabelModel


@dataclass(frozen=True)
class SavedRun:
    """What a run folder holds.

    Attributes:
        folder: Where it lies.
        config: What was run.
        records: All of ``config.yaml``: also class order, weights, versions.
        class_names: In order of learning; those that the model knows.
        input_shape: Of one input, without the batch.
        model: As it was after the last finished experience, in evaluation mode on the CPU.
    """

    folder: Path
    config: Config
    records: dict[str, Any]
    class_names: list[str]
    input_shape: tuple[int, ...]
    model: MultiLabelModel


def load_run(folder: str | Path) -> SavedRun:
    """Read a run's configuration and model.

    Raises:
        FileNotFoundError: When the folder is not a run, or no experience is finished yet.
    """
    folder = Path(folder)
    path = folder / "config.yaml"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a run: it has no config.yaml")
    records: dict[str, Any] = yaml.safe_load(path.read_text())
    config = Config.from_dict(records)
    point = CheckpointFolder(folder / "checkpoint").newest()
    if not point.end:
        raise FileNotFoundError(f"{folder} has not finished its first experience")
    shape = tuple(records["environment"]["input_shape"])
    model = build_network(config, shape, pretrained=False)
    model.load_state_dict(point.end["strategy"]["model"])
    model.eval()
    names = list(records["class_names"])[: model.num_classes]
    return SavedRun(folder, config, records, names, shape, model)
