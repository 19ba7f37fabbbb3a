"""What this package takes by default, in terms of a loop written by hand: the first table of `make speed`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comparison import Row, seconds, turn_by_turn
from PIL import Image
from start import _process
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2
from training import (
    MEMORY,
    RATE,
    HandWritten,
    bare_epochs,
    evaluation_row,
    random_streams,
    strategy_epochs,
)

from rebll_avalanche import RebLL, build_model

LITE = "tf_efficientnet_lite0"


def training_row(
    backbone: str,
    side: int,
    batch: int,
    rounds: int,
    times: float,
    *,
    least_steps: int = 5,
    threads: int = 1,
    now: Callable[[], float] = time.process_time,
) -> Row:
    """A step of RebLL as it is by default, beside the step by hand with one thread."""
    # Memory has to be full, so that both sides replay the same number. The teacher is prepared in the first
    # step of an experience; in few steps this would weigh more than in any real one.
    steps = max(least_steps, -(-MEMORY // batch))
    benchmark = random_streams(steps * batch, side)
    images = torch.stack([x for x, _ in benchmark.train_stream[1].dataset])
    labels = benchmark.train_stream[1].full_targets
    model = build_model(backbone)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    strategy = RebLL(model=model, optimizer=optimizer, train_mb_size=batch, mem_size=MEMORY)
    epochs = strategy_epochs(strategy, benchmark, now)
    strategy.train(benchmark.train_stream[1])
    teacher = HandWritten(model).eval().requires_grad_(False)
    by_hand = bare_epochs(HandWritten(model), teacher, images, labels, batch)

    def ours() -> float:
        torch.set_num_threads(threads)
        try:
            return epochs()
        finally:
            torch.set_num_threads(1)

    def bare() -> float:
        if now is time.process_time:
            return by_hand()
        start = now()
        by_hand()
        return now() - start

    taken = turn_by_turn(rounds, ours=ours, bare=bare)
    per_step = {name: 1000 * value / steps for name, value in taken.items()}
    how = "one thread" if threads == 1 else f"{threads} threads, wall clock"
    what = f"training step of RebLL, {backbone} at {side} px, batch {batch} + {MEMORY}, {how}"
    return Row(what, per_step["ours"], per_step["bare"], times=times)


class Files(Dataset):
    """Pictures as a plain loop reads them."""

    def __init__(self, paths: list[Path], side: int) -> None:
        self.paths = paths
        self.transform = v2.Compose(
            [v2.Resize((side, side)), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.paths[index]).convert("RGB"))


def features_row(pictures: int = 64, rounds: int = 5) -> Row:
    """Files of VOC's size to pooled vectors."""
    from rebll_avalanche.benchmarks.features import FrozenFeatures
    from rebll_avalanche.benchmarks.images import ImageFiles

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.jpg") for number in range(pictures)]
        for path in paths:
            coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
            coarse.resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
        maker = FrozenFeatures(LITE, pretrained=None, image_size=224)
        source = ImageFiles(paths)
        network = HandWritten(maker.model).eval()

        @torch.inference_mode()
        def bare() -> None:
            for batch in DataLoader(Files(paths, 224), batch_size=32):
                network.backbone((batch - network.mean) / network.std).mean((2, 3))

        taken = turn_by_turn(rounds, ours=seconds(lambda: maker.of(source)), bare=seconds(bare))
    per_picture = {name: 1000 * value / pictures for name, value in taken.items()}
    what = f"features of VOC-size files, {LITE} at 224 px"
    return Row(what, per_picture["ours"], per_picture["bare"], times=0.5)


def prediction_row(backbone: str, rounds: int = 5) -> Row:
    """`rebll predict RUN one.jpg` in a fresh process; the bound is a process that imports torch."""
    with tempfile.TemporaryDirectory() as folder:
        run, picture = Path(folder, "run"), Path(folder, "one.jpg")
        settings = {
            "benchmark": {"train_size": 32, "test_size": 32, "scenario": "B10-C10"},
            "model": {"backbone": backbone},
            "training": {"epochs": 1},
        }
        code = (
            "import json, sys; from pathlib import Path; from rebll_avalanche import run_experiment\n"
            "from rebll_avalanche.configuration.config import Config\n"
            "run_experiment(Config.from_dict(json.loads(sys.argv[1])), Path(sys.argv[2]))"
        )
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, json.dumps(settings), str(run)],
            check=True,
            capture_output=True,
        )
        Image.new("RGB", (500, 375)).save(picture)
        command = ("-m", "rebll_avalanche.cli", "predict", str(run), str(picture))
        taken = turn_by_turn(rounds, ours=_process(*command), torch=_process("-c", "import torch"))
    what = f"`rebll predict RUN one.jpg` from a cold start, {backbone}, beside `import torch`"
    return Row(what, taken["ours"], taken["torch"], "s", at_most=3.0)


def rows() -> list[Row]:
    """In the order of RESULTS.md."""
    return [
        training_row(LITE, 96, 32, rounds=5, times=0.55, least_steps=10),
        training_row(
            LITE, 96, 32, rounds=5, times=0.40, least_steps=10, threads=2, now=time.perf_counter
        ),
        training_row("resnet18", 224, 8, rounds=4, times=0.8),
        training_row("vit_small_patch16_224", 224, 8, rounds=4, times=0.8),
        evaluation_row(LITE, side=96, batch=64, images=256, rounds=20, times=0.55),
        evaluation_row(LITE, side=224, batch=32, images=64, rounds=10, times=0.55),
        features_row(),
        prediction_row("small_cnn"),
        prediction_row(LITE),
    ]
