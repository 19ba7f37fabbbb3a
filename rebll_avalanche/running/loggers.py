"""Optional Avalanche loggers, in addition to the run's own files."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from avalanche import logging

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.distributed.ranks import is_first
from rebll_avalanche.files import write_text
from rebll_avalanche.run_files import TENSORBOARD, TEXT_LOG, WANDB_ID


def build_loggers(config: Config, folder: Path) -> list[Any]:
    """The loggers that a configuration names; they write into the run folder, on the first rank."""
    made: list[Any] = []
    for name in config.loggers if is_first() else ():
        if name == "text":
            made.append(logging.TextLogger((folder / TEXT_LOG).open("a")))
        elif name == "tensorboard":
            made.append(logging.TensorboardLogger(folder / TENSORBOARD))
        else:
            settings = config.to_dict()
            made.append(WandBNumbers(name=config.folder_name, folder=folder, config=settings))
    return made


class WandBNumbers(logging.WandBLogger):
    """Avalanche's W&B logger, restricted to scalar metrics.

    Avalanche's own calls functions that wandb has removed. This one also keeps its files in the run
    folder, and a resumed run continues the same W&B run. wandb decides whether to upload anything:
    ``WANDB_MODE=offline`` keeps everything local.

    Args:
        name: Name of the W&B run.
        folder: The run folder.
        config: Its settings.
    """

    def __init__(self, *, name: str, folder: Path, config: dict[str, Any]) -> None:
        path = folder / WANDB_ID
        if not path.exists():
            write_text(path, secrets.token_hex(8))
        super().__init__(
            project_name="rebll",
            run_name=name,
            dir=folder,
            config=config,
            save_code=False,
            params={"id": path.read_text(), "resume": "allow"},
        )

    def before_run(self) -> None:
        """Start or resume the W&B run."""
        self.wandb.init(**self.init_kwargs)

    def log_single_metric(self, name: str, value: Any, x_plot: int) -> None:
        """Log one point of a curve."""
        self.step = x_plot
        if isinstance(value, int | float):
            self.wandb.log({name: value}, step=x_plot)
