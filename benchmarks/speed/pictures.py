"""Reading pictures: from files, from the cache of decoded pictures, and out of memory for replay.

Files are drawn scenes written as JPEG, so that nothing has to be downloaded; `data.py` measures the same
on real images.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comparison import Row, seconds, turn_by_turn
from PIL import Image
from torch.utils.data import DataLoader

from rebll_avalanche.benchmarks import VOC2007, MultiLabelScenes, training_transform
from rebll_avalanche.benchmarks.shapes import CLASSES
from rebll_avalanche.memory import Memory

FILE_SIDE, SIDE, PAPER_SIDE, BATCH, MEMORY = 160, 96, 224, 64, 40
EPOCHS = 8


def _batches(tensors: Any) -> None:
    """Stack tensors into batches, as any loop must."""
    batch = []
    for tensor in tensors:
        batch.append(tensor)
        if len(batch) == BATCH:
            torch.stack(batch)
            batch = []


def _again(epoch: Callable[[], None]) -> Callable[[], None]:
    """Several epochs instead of one."""

    def run() -> None:
        for _ in range(EPOCHS):
            epoch()

    return run


def _decoded(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def _unit(array: np.ndarray) -> torch.Tensor:
    """Channels first, as the network wants them, without a picture in between."""
    return torch.from_numpy(array.transpose(2, 0, 1).astype(np.float32)).div_(255)


def rows(images: int = 128, rounds: int = 12) -> list[Row]:
    """Epochs over an experience of all images, and batches of memory."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        MultiLabelScenes(train_size=images, test_size=40, image_size=FILE_SIDE).write_voc(root)

        def benchmark(side: int, **options: Any) -> VOC2007:
            return VOC2007("B20-C0", root=root, image_size=side, class_names=CLASSES, **options)

        plain = benchmark(SIDE)
        cached, large = (benchmark(side, image_cache=root / "cache") for side in (SIDE, PAPER_SIDE))
        count = len(plain.train_stream[0].dataset)
        paths = sorted(root.glob("VOCdevkit/VOC2007/JPEGImages/*"))[:count]
        mapped, large_mapped = (_stored(root, side, count) for side in (SIDE, PAPER_SIDE))

        def epoch(benchmark: Any, training: bool) -> Callable[[], None]:
            dataset = benchmark.train_stream[0].dataset
            dataset = dataset.train() if training else dataset.eval()

            def run() -> None:
                # As the loaders of strategies do.
                for _ in DataLoader(dataset, batch_size=BATCH, collate_fn=dataset.collate_fn):
                    pass

            return run

        augment = training_transform(SIDE)
        taken = turn_by_turn(
            rounds,
            files=seconds(epoch(plain, True)),
            bare_files=seconds(lambda: _batches(augment(_decoded(path)) for path in paths)),
            cache=seconds(epoch(cached, True)),
            bare_cache=seconds(lambda: _batches(augment(Image.fromarray(row)) for row in mapped)),
        )
        # Milliseconds each: a turn is several epochs, and nothing that empties caches comes between.
        taken |= turn_by_turn(
            2 * rounds,
            read=seconds(_again(epoch(cached, False))),
            bare_read=seconds(_again(lambda: _batches(_unit(row) for row in mapped))),
        )
        taken |= turn_by_turn(
            2 * rounds,
            large=seconds(_again(epoch(large, False))),
            bare_large=seconds(_again(lambda: _batches(_unit(row) for row in large_mapped))),
        )
        replay = _replay_row(plain, rounds)
    cost = {name: 1e6 * value / count for name, value in taken.items()}
    for name in ("read", "bare_read", "large", "bare_large"):
        cost[name] = cost[name] / EPOCHS
    return [
        Row("first epoch, from files / decoding by hand", cost["files"], cost["bare_files"], "us", times=1.1),
        Row("later epochs, from the cache / memory map", cost["cache"], cost["bare_cache"], "us", times=1.1),
        Row(f"the same without augmentation, {SIDE} px", cost["read"], cost["bare_read"], "us", times=1.1),
        Row(f"the same, {PAPER_SIDE} px", cost["large"], cost["bare_large"], "us", times=1.1),
        replay,
    ]  # fmt: skip


def _stored(root: Path, side: int, count: int) -> np.ndarray:
    """What the cache holds of the training pictures."""
    arrays = [np.load(path, mmap_mode="r") for path in root.glob(f"cache/{side}px-*/images.npy")]
    return next(array for array in arrays if len(array) >= count)[:count]


def _replay_row(benchmark: VOC2007, rounds: int) -> Row:
    """Batches of memory, whose images lie in files, beside the same augmentation of arrays."""
    memory = Memory(MEMORY)
    memory.update(benchmark.train_stream[0])
    augment = training_transform(SIDE)
    evaluated = memory.images(torch.arange(len(memory)), augment=False)
    squares = [np.array(x.mul(255).byte().permute(1, 2, 0)) for x in evaluated]

    def bare() -> None:
        torch.manual_seed(0)
        torch.stack([augment(Image.fromarray(squares[i])) for i in torch.randperm(MEMORY)])

    def ours() -> None:
        torch.manual_seed(0)
        memory.draw(MEMORY)

    taken = turn_by_turn(2 * rounds, ours=seconds(ours), bare=seconds(bare))
    per_image = {name: 1e6 * value / MEMORY for name, value in taken.items()}
    return Row(
        "memory replay, images in files / arrays in memory",
        per_image["ours"],
        per_image["bare"],
        "us",
        times=1.1,
    )
