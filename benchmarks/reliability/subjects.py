"""What is tormented: runs, the file of a learner, and that of a server; each is small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image

from rebll_avalanche import Learner, multilabel_benchmark
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.checkpointing.state import pack
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.learner.file import read_learner
from rebll_avalanche.learner.held import changing, held
from rebll_avalanche.run_files import CONFIG, METRICS, read_settings
from rebll_avalanche.running.run import run_experiment
from rebll_avalanche.serve.service import LearnerService


class Subject(Protocol):
    """Something that is done in a folder and can be stopped and started again.

    Attributes:
        name: For the table of counts.
    """

    name: str

    def work(self, folder: Path) -> None:
        """Do it, or go on where it was stopped."""

    def bits(self, folder: Path) -> dict[str, bytes]:
        """All that came of it and does not depend on the clock."""

    def answer(self, folder: Path) -> str:
        """What a user sees of something finished."""


def streams(experiences: int = 3) -> Any:
    """Vectors, linearly separable up to noise, two classes per experience."""
    generator = torch.Generator().manual_seed(0)
    classes = 2 * experiences
    rule = torch.randn(8, classes, generator=generator)
    samples = max(160, 20 * experiences)
    x = torch.randn(samples, 8, generator=generator)
    y = (x @ rule > 1).float()
    y[torch.arange(samples), torch.arange(samples) % classes] = 1
    half = samples // 2
    return multilabel_benchmark((x[:half], y[:half]), (x[half:], y[half:]), "B2-C2")


def settings(method: str, epochs: int = 2) -> Config:
    """A run of vectors, with a schedule, and whatever memory and teacher the method has."""
    return Config.from_dict(
        {
            "benchmark": {"name": "scenes", "scenario": "B2-C2"},
            "model": {"backbone": "vector"},
            "method": {"name": method},
            "training": {"epochs": epochs, "batch_size": 32, "lr": 0.05, "device": "cpu"},
        }
    )


def run_bits(folder: Path) -> dict[str, bytes]:
    """Settings, model, optimizer, memory, teacher, random numbers and results at the end of a run."""
    end = CheckpointFolder(folder / "checkpoint").newest().end
    end["strategy"]["plugins"].pop("Recorder-0")  # holds the time that training took
    numbers = [(record["metrics"], record["loss_terms"]) for record in end["records"]]
    settings = read_settings(folder / CONFIG)
    settings.pop("git", None)  # somebody may commit meanwhile
    settings["environment"].pop("preparation_seconds", None)
    return _bytes((settings, end["strategy"], numbers))


class Run:
    """A run folder.

    Args:
        method: Its method.
    """

    def __init__(self, method: str) -> None:
        self.name = method
        self._method = method

    def work(self, folder: Path) -> None:
        """Train, or go on."""
        run_experiment(settings(self._method), folder, benchmark=streams())

    def bits(self, folder: Path) -> dict[str, bytes]:
        """As :func:`run_bits`."""
        return run_bits(folder)

    def answer(self, folder: Path) -> str:
        """The metrics that ``rebll run`` answers with."""
        self.work(folder)
        return (folder / METRICS).read_text()


class File:
    """A learner's file that is taught two lessons.

    Args:
        root: Where pictures may be drawn.
        method: Its method.
    """

    def __init__(self, root: Path, method: str) -> None:
        self.name = f"learner: {method}"
        self._method = method
        self._tables = [
            _drawn(root / "pictures", "march", ("red", "green")),
            _drawn(root / "pictures", "april", ("green", "blue")),
        ]

    def work(self, folder: Path) -> None:
        """Teach what it was not taught yet, one command per lesson."""
        folder.mkdir(exist_ok=True)
        for number, table in enumerate(self._tables):
            with changing(folder / "city.rebll", self.made) as learner:
                if len(learner.lessons) == number:
                    learner.learn(table)

    def made(self) -> Learner:
        """A new one."""
        torch.manual_seed(0)  # its backbone has random weights
        return Learner(
            method=self._method,
            backbone="test_resnet",
            pretrained=None,
            image_size=32,
            training={"epochs": 1} if self._method != "closed-form" else None,
        )

    def bits(self, folder: Path) -> dict[str, bytes]:
        """Everything in the file but when lessons were, and how long they took."""
        return _bytes(_without_times(read_learner(folder / "city.rebll")))

    def answer(self, folder: Path) -> str:
        """Its lessons and its scores of one picture."""
        learner = Learner.load(folder / "city.rebll")
        picture = np.full((32, 32, 3), 90, np.uint8)
        return repr((learner.lessons, learner.thresholds, learner.scores(picture).tolist()))


class Served(File):
    """The same lessons, given to a server that holds the file."""

    def __init__(self, root: Path, method: str) -> None:
        super().__init__(root, method)
        self.name = f"server: {method}"

    def work(self, folder: Path) -> None:
        """Start the server and teach what is missing."""
        folder.mkdir(exist_ok=True)
        path = folder / "city.rebll"
        with held(path):
            service = LearnerService(Learner.load(path) if path.exists() else self.made(), path)
            for table in self._tables[len(service.learner.lessons) :]:
                job = service.submit("learn", _lesson(table)).finished.result()
                if job.error is not None:
                    raise ValueError(job.error)
            service.close()


def _lesson(table: Path) -> Callable[[Learner, Any], Any]:
    return lambda learner, job: learner.learn(table)


def _drawn(folder: Path, name: str, classes: tuple[str, ...]) -> Path:
    """Pictures of plain colours with noise, and a table of them."""
    place = folder / name
    if place.is_dir():
        return place / "labels.csv"
    place.mkdir(parents=True)
    colours = {"red": (220, 30, 30), "green": (30, 200, 60), "blue": (40, 60, 230)}
    draw = np.random.default_rng(len(name))
    rows = ["file,labels"]
    for number in range(12):
        label = classes[number % len(classes)]
        pixels = np.clip(draw.normal(colours[label], 40, (32, 32, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{name}{number}.png")
        rows.append(f"{name}{number}.png,{label}")
    (place / "labels.csv").write_text("\n".join(rows) + "\n")
    return place / "labels.csv"


def _without_times(state: Any) -> Any:
    if isinstance(state, dict):
        times = ("seconds", "taught_at")
        return {key: _without_times(value) for key, value in state.items() if key not in times}
    if isinstance(state, list | tuple):
        return [_without_times(value) for value in state]
    return state


def _bytes(state: Any) -> dict[str, bytes]:
    tensors: dict[str, torch.Tensor] = {}
    text = repr(pack(state, tensors))
    return {"text": text.encode()} | {k: v.numpy().tobytes() for k, v in tensors.items()}
