"""Weights & Biases beside the run folder, for those who ask for it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from avalanche.logging import WandBLogger

RUN_ID = "wandb-id.txt"


class WandBNumbers(WandBLogger):
    """Avalanche's W&B logger for numbers, which are all that a run has to log.

    Avalanche's own calls functions that wandb no longer has. This one also keeps its files in the run
    folder, and a run that is stopped and started again goes on in the same W&B run. Whether anything
    goes online is wandb's business: ``WANDB_MODE=offline`` keeps all of it here.

    Args:
        name: What W&B calls the run.
        folder: The run folder.
        config: Its settings.
    """

    def __init__(self, *, name: str, folder: Path, config: dict[str, Any]) -> None:
        path = folder / RUN_ID
        if not path.exists():
            path.write_text(secrets.token_hex(8))
        super().__init__(
            project_name="rebll",
            run_name=name,
            dir=folder,
            config=config,
            save_code=False,
            params={"id": path.read_text(), "resume": "allow"},
        )

    def before_run(self) -> None:
        """Begin, or go on."""
        self.wandb.init(**self.init_kwargs)

    def log_single_metric(self, name: str, value: Any, x_plot: int) -> None:
        """One point of a curve."""
        self.step = x_plot
        if isinstance(value, int | float):
            self.wandb.log({name: value}, step=x_plot)
