"""A small learner that knows two colours, behind a server."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import uvicorn
from PIL import Image, ImageDraw

from rebll_avalanche import Learner
from rebll_avalanche.tables import AnnotationTable

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from rebll_avalanche.serve.app import make_app
from rebll_avalanche.serve.guard import Guard

COLOURS = {"red": (220, 30, 30), "blue": (40, 60, 230), "green": (30, 200, 60)}
SIZE = 64
TINY = {"backbone": "test_resnet", "pretrained": None, "image_size": SIZE}


def drawn(names: Sequence[str], seed: int) -> Image.Image:
    """A noisy picture with one square for each name, somewhere."""
    random = np.random.default_rng(seed)
    picture = Image.fromarray(random.integers(150, 256, (SIZE, SIZE, 3)).astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    for name in names:
        x, y = random.integers(0, SIZE - 30, 2).tolist()
        pen.rectangle((x, y, x + 28, y + 28), fill=COLOURS[name])
    return picture


def png(names: Sequence[str], seed: int) -> bytes:
    """The same as a file."""
    stream = BytesIO()
    drawn(names, seed).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(scope="session")
def taught() -> Callable[[], Learner]:
    """A function that gives a learner of its own, which knows red and blue."""
    torch.manual_seed(0)
    learner = Learner(**TINY)
    shown = [[], ["red"], ["blue"], ["red", "blue"]] * 5
    labels = [[name in names for name in ("red", "blue")] for names in shown]
    learner.learn(
        AnnotationTable(
            images=tuple(f"{number}.png" for number in range(20)),
            class_names=("red", "blue"),
            labels=np.array(labels, np.float32),
            read_as="drawn",
            pictures=[drawn(names, number) for number, names in enumerate(shown)],
        )
    )
    return lambda: copy.copy(learner)


@pytest.fixture
def path(tmp_path) -> Path:
    """Where the learner is kept."""
    return tmp_path / "colours.rebll"


@pytest.fixture
def app(taught, path) -> Guard:
    """Of a learner that knows red and blue."""
    return make_app(taught(), path)


@pytest.fixture
def client(app) -> Iterator[TestClient]:
    """Asks it, as from this machine."""
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        yield client


def files(*contents: bytes, names: Sequence[str] | None = None) -> list[tuple]:
    """Pictures as a form has them."""
    names = names or [f"p{number}.png" for number in range(len(contents))]
    return [("pictures", pair) for pair in zip(names, contents, strict=True)]


def green_lesson(count: int = 12) -> dict:
    """Pictures with and without green, and their labels, for ``client.post``."""
    shown = [["green"] if number % 2 else ["red"] * (number % 4 == 0) for number in range(count)]
    contents = [png(names, 500 + number) for number, names in enumerate(shown)]
    labels = [{"green": "green" in names} for names in shown]
    return {"files": files(*contents), "data": {"labels": json.dumps(labels)}}


@pytest.fixture(scope="session")
def scenes() -> SimpleNamespace:
    """The functions above."""
    return SimpleNamespace(drawn=drawn, png=png, files=files, green_lesson=green_lesson)


@pytest.fixture
def backbone_options() -> dict:
    """Of a learner that takes no time."""
    return dict(TINY)


@pytest.fixture
def address(app) -> Iterator[str]:
    """Where the server of a learner that knows red and blue listens."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()
