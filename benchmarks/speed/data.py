"""What reading images costs: with the cache of decoded images, without it, and in a bare Pillow loop.

    python benchmarks/speed/data.py --root DATA --image-size 96

Epochs run through a data loader over an experience, turn by turn in one process, and medians are
compared. The caches are built in a temporary folder, so that a first and a second start are timed too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader

from rebll_avalanche.benchmarks import VOC2007, multilabel_benchmark, training_transform
from rebll_avalanche.benchmarks.voc import VOC_CLASSES, read_voc

BATCH = 64


def seconds(work: Callable[[], Any]) -> float:
    """How long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare_loop(paths: list[Path], image_size: int) -> None:
    """What anybody would write: open, convert, resize, divide."""
    for path in paths:
        with Image.open(path) as image:
            picture = image.convert("RGB").resize(
                (image_size, image_size), Image.Resampling.BILINEAR
            )
        torch.from_numpy(np.array(picture)).permute(2, 0, 1).float().div(255)


def epoch(dataset: Any, workers: int) -> None:
    """One pass over a data set, batch by batch."""
    for _ in DataLoader(dataset, batch_size=BATCH, num_workers=workers):
        pass


def coco_sized_streams() -> None:
    """Streams from label matrices of the size of COCO 2014, without a single image."""
    rng = np.random.default_rng(0)
    splits = []
    for count in (82_081, 40_504):
        labels = (rng.random((count, 80), dtype=np.float32) < 0.036).astype(np.float32)
        splits.append((np.zeros((count, 1)), labels))
    print(
        f"streams of COCO's size {seconds(lambda: multilabel_benchmark(*splits, 'B20-C4')):7.2f} s"
    )


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds VOCdevkit")
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--images", type=int, default=0, help="use only so many; 0 for all")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0)
    arguments = parser.parse_args()

    # One thread: copying small tensors gains nothing from more, and a busy machine disturbs it less.
    torch.set_num_threads(1)
    side = arguments.image_size
    options: dict[str, Any] = {"root": arguments.root, "image_size": side}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        cache = Path(folder) / "images"
        first = seconds(lambda: VOC2007("B20-C0", **options))
        second = seconds(lambda: VOC2007("B20-C0", **options))
        build = seconds(lambda: VOC2007("B20-C0", image_cache=cache, **options))
        reopen = seconds(lambda: VOC2007("B20-C0", image_cache=cache, **options))
        print(f"first start, reads XML {first:7.2f} s, second {second:.2f} s")
        print(f"cache: built in        {build:7.2f} s, opened in {reopen:.2f} s (both splits)")

        files, cached = (
            VOC2007("B20-C0", image_cache=place, **options).train_stream[0].dataset.eval()
            for place in (None, cache)
        )
        table = read_voc(arguments.root, "2007", "trainval", VOC_CLASSES)
        count = arguments.images or len(files)
        files, cached = files.subset(range(count)), cached.subset(range(count))
        paths = [table.files.path(index) for index in range(count)]
        augmented = training_transform(side)
        contestants: dict[str, Callable[[], None]] = {
            "bare Pillow loop": lambda: bare_loop(paths, side),
            "files": lambda: epoch(files, arguments.workers),
            "cache": lambda: epoch(cached, arguments.workers),
            "files, augmented": lambda: epoch(
                files.replace_current_transform_group(augmented), arguments.workers
            ),
            "cache, augmented": lambda: epoch(
                cached.replace_current_transform_group(augmented), arguments.workers
            ),
        }
        taken: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(arguments.epochs):
            for name, work in contestants.items():
                taken[name].append(seconds(work))
        median = {name: statistics.median(times) for name, times in taken.items()}
        for name, value in median.items():
            print(f"{name:22s} {1e6 * value / count:7.0f} us per image, {1 / value:.3f} epochs/s")
        for kind in ("", ", augmented"):
            ratio = median[f"files{kind}"] / median[f"cache{kind}"]
            print(f"cache against files{kind:12s} {ratio:5.1f} times the epochs per second")
        overhead = 1e6 * (median["files"] - median["bare Pillow loop"]) / count
        print(f"streams beside a bare loop {overhead:+.0f} us per image")
        stored = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
        original = sum(path.stat().st_size for path in paths) / count
        pictures = sum(len(np.load(path, mmap_mode="r")) for path in cache.rglob("images.npy"))
        print(
            f"on disk: {stored / 1e6:.1f} MB for {pictures} images, {stored / pictures:.0f} bytes"
        )
        print(f"each, beside {original:.0f} bytes as JPEG")
    coco_sized_streams()


if __name__ == "__main__":
    main()
