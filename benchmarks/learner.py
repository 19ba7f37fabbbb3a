"""A learner through the months on PASCAL VOC, beside one that saw everything at once; times and calls.

    python benchmarks/learner.py DATA/VOCdevkit/VOC2007 --to benchmarks/results/learner.csv

March teaches 8 classes from 400 pictures with 30 wrong labels, April 3 new classes, May brings more of the
old classes and the corrections; every folder is deleted after its lesson. After each month, held-out pictures
are scored by the learner and by one that had one lesson with all pictures so far and the right labels. Then
seconds of `learn` and `predict` beside those of the backbone alone. Last, a class that is in 12 % of the
pictures is added with every method, on vectors and from pictures: how often is it called in others, and
how well does it rank them?
"""

from __future__ import annotations

import argparse
import csv
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rebll_avalanche import METHODS, Learner, read_table
from rebll_avalanche.benchmarks.features import FrozenFeatures
from rebll_avalanche.benchmarks.transforms import KeepAspect
from rebll_avalanche.learner.methods import REFUSED, REFUSED_ON_VECTORS
from rebll_avalanche.learner.pictures import Pictures, find_pictures
from rebll_avalanche.metrics.functional import average_precision
from rebll_avalanche.tables import AnnotationTable

FIRST, LATER = 8, 3
RARE = 0.12
FIGURES = ("value", "beside", "ap")


class Remembering:
    """Features that are computed once for each picture: the comparison needs them many times."""

    def __init__(self, features: FrozenFeatures) -> None:
        self.features = features
        self.known: dict[int, torch.Tensor] = {}

    def of(self, pictures: Pictures) -> torch.Tensor:
        keys = pictures.keys()
        new = [row for row, key in enumerate(keys) if key not in self.known]
        if new:
            vectors = self.features.of(pictures.chosen(new))
            self.known |= {keys[row]: vector for row, vector in zip(new, vectors, strict=True)}
        return torch.stack([self.known[key] for key in keys])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.features, name)


class Months:
    """Tables of some pictures and classes of VOC, each with copies of its pictures."""

    def __init__(self, table: AnnotationTable, seed: int, scale: float) -> None:
        self.names = table.class_names
        self.images = table.images
        self.labels = np.nan_to_num(table.labels)
        self.scale = scale
        self.random = np.random.default_rng(seed)
        self.left = list(self.random.permutation(len(table)))

    def take(self, classes: Sequence[int], count: int) -> list[int]:
        """Pictures that show one of some classes and that nobody has taken yet."""
        wanted = round(count * self.scale)
        rows = [row for row in self.left if self.labels[row, list(classes)].any()][:wanted]
        taken = set(rows)
        self.left = [row for row in self.left if row not in taken]
        return rows

    def write(
        self, folder: Path, rows: Sequence[int], labels: np.ndarray, names: Sequence[str]
    ) -> Path:
        """A folder with pictures and a table with a column per class."""
        folder.mkdir(parents=True)
        with (folder / "labels.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["file", *names])
            for row, given in zip(rows, labels.astype(int).tolist(), strict=True):
                shutil.copy(self.images[row], folder)
                writer.writerow([Path(self.images[row]).name, *given])
        return folder / "labels.csv"


def walk(months: Months, features: Any, size: int, *_: Any) -> Iterator[dict[str, Any]]:
    """The months; one row after each."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _walk(months, features, Path(folder), size)


def _walk(months: Months, features: Any, place: Path, size: int) -> Iterator[dict[str, Any]]:
    old, new = list(range(FIRST)), list(range(FIRST, FIRST + LATER))
    held_out = months.take([*old, *new], 600)
    march, april, may = months.take(old, 400), months.take(new, 200), months.take(old, 200)
    learner = make(features, size)
    right = months.labels[np.ix_(march, old)]
    wrong, spoiled = (
        right.copy(),
        months.random.choice(len(march), max(1, len(march) * 30 // 400), False),
    )
    for row in spoiled:
        column = months.random.integers(FIRST)
        wrong[row, column] = 1 - wrong[row, column]
    seen: list[int] = []
    corrections = [march[row] for row in spoiled]
    for month, rows, classes, labels in (
        ("march", march, old, wrong),
        ("april", april, new, months.labels[np.ix_(april, new)]),
        ("may", may, old, months.labels[np.ix_(may, old)]),
    ):
        names = [months.names[column] for column in classes]
        table = months.write(place / month, rows, labels, names)
        learner.learn(table)
        shutil.rmtree(table.parent)
        if month == "may":
            listed = months.write(place / "right", corrections, right[spoiled], names)
            for picture in listed.parent.glob("*.jpg"):
                picture.unlink()  # known by their names
            learner.correct(listed)
        seen += rows
        known = old if month == "march" else [*old, *new]
        at_once = make(features, size)
        at_once.learn(pair(months, seen, known), class_names=[months.names[c] for c in known])
        copy = Learner.load(learner.save(place / f"{month}.rebll"))
        copy._features = features
        found = [
            each.evaluate(
                pair(months, held_out, known), class_names=[months.names[c] for c in known]
            )
            for each in (copy, at_once)
        ]
        scores = [100 * each.mean_average_precision for each in found]
        yield {"name": month, "value": scores[0], "beside": scores[1]}


def rare_class(
    months: Months, features: Any, size: int, wanted: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A class in 12 % of the pictures of a lesson: how often each method on vectors calls it in others."""
    methods = [method for method in wanted or METHODS if method not in REFUSED_ON_VECTORS]
    return _rare(months, methods, lambda **options: make(features, size, **options))


def rare_class_trained(
    months: Months, features: Any, size: int, wanted: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The same of each method that trains the backbone from pictures."""
    methods = [method for method in wanted or METHODS if method not in REFUSED]
    kind = {"frozen": False, "image_size": size, "training": {"epochs": 4, "tuning": "off"}}
    return _rare(months, methods, lambda **options: Learner(**kind, **options))


def _rare(
    months: Months, methods: Sequence[str], maker: Callable[..., Learner]
) -> Iterator[dict[str, Any]]:
    old, rare = list(range(FIRST)), FIRST + LATER
    held_out = months.take(range(len(months.names)), 400)
    first = months.take(old, 200)
    with_it = months.take([rare], 24)
    others = [row for row in months.left if not months.labels[row, rare]]
    second = [*with_it, *others[: round(len(with_it) * (1 - RARE) / RARE)]]
    for method in methods:
        options = {"mem_size": 40} if METHODS[method].uses_memory else {}
        learner = maker(method=method, **options)
        learner.learn(pair(months, first, old), class_names=[months.names[c] for c in old])
        learner.learn(pair(months, second, [rare]), class_names=[months.names[rare]])
        scores = learner.scores([months.images[row] for row in held_out])[:, -1].numpy()
        called = scores > learner.thresholds[months.names[rare]]
        truth = months.labels[held_out, rare] == 1
        found = torch.tensor(truth).float()[:, None]
        yield {
            "name": method,
            "value": 100 * called[~truth].mean(),
            "beside": 100 * called[truth].mean(),
            "ap": 100 * float(average_precision(torch.tensor(scores)[:, None], found)[0]),
        }


def times(months: Months, features: Any, size: int, *_: Any) -> Iterator[dict[str, Any]]:
    """Seconds of learning and of one prediction, beside reading pictures and the backbone alone."""
    rows = months.take(range(FIRST), 400)
    learner = Learner(image_size=size)
    files = [months.images[row] for row in rows]
    model, transform = learner.features.model, KeepAspect(size)
    learner.features.of(find_pictures(files[:40]))  # warm

    started = time.perf_counter()
    shown = find_pictures(files)
    for picture in shown:
        transform(picture)
    reading = time.perf_counter() - started
    groups: dict[Any, list[torch.Tensor]] = {}
    for picture in shown:
        tensor = transform(picture)
        groups.setdefault(tensor.shape, []).append(tensor)
    started = time.perf_counter()
    with torch.inference_mode():
        for tensors in groups.values():
            for start in range(0, len(tensors), 16):
                model.features(torch.stack(tensors[start : start + 16])).mean(dim=(2, 3))
    bare = reading + time.perf_counter() - started
    started = time.perf_counter()
    names = list(months.names[:FIRST])
    learner.learn((files, months.labels[rows][:, :FIRST]), class_names=names)
    yield {
        "name": f"learn {len(rows)}",
        "value": time.perf_counter() - started,
        "beside": bare,
    }

    both = []
    for ask in (
        learner.predict,
        lambda file: model.features(transform(find_pictures(file)[0])[None]),
    ):
        with torch.inference_mode():
            ask(files[0])
            started = time.perf_counter()
            for _ in range(10):
                ask(files[0])
            both.append((time.perf_counter() - started) / 10)
    yield {"name": "predict 1", "value": both[0], "beside": both[1]}


def make(features: Any, size: int, **options: Any) -> Learner:
    """A learner with features that are there already."""
    learner = Learner(image_size=size, **options)
    learner._features, learner._backbone_hash = features, features.weights_hash()
    return learner


def pair(
    months: Months, rows: Sequence[int], columns: Sequence[int]
) -> tuple[list[str], np.ndarray]:
    """Pictures and labels as a table."""
    return [months.images[row] for row in rows], months.labels[np.ix_(rows, columns)]


def main() -> None:
    """Run the parts and write a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path, help="a folder with Annotations and JPEGImages")
    parser.add_argument("--to", type=Path, default=Path("learner.csv"), help="rows are added to it")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--image-size", type=int, default=288)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the pictures")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the pictures' order"
    )
    parser.add_argument("--methods", nargs="+", default=[], help="for the rare class; all")
    arguments = parser.parse_args()
    table = read_table(arguments.voc)
    features = Remembering(Learner(image_size=arguments.image_size).features)
    new = not arguments.to.is_file()
    with arguments.to.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, ["part", "name", "image_size", "seed", *FIGURES])
        if new:
            writer.writeheader()
        for part, seed in itertools.product(arguments.parts, arguments.seeds):
            months = Months(table, seed, arguments.scale)
            for row in PARTS[part](months, features, arguments.image_size, arguments.methods):
                row |= {key: round(float(row[key]), 3) for key in FIGURES if key in row}
                row |= {"part": part, "image_size": arguments.image_size, "seed": seed}
                print(row, flush=True)
                writer.writerow(row)
                stream.flush()


# What each measures, and what stands beside it.
PARTS = {
    "months": walk,  # mAP; that of a learner that saw everything at once
    "seconds": times,  # of the learner; of reading pictures and the backbone alone
    "rare": rare_class,  # % called of pictures without it; of pictures with it; average precision in %
    "rare, trained": rare_class_trained,  # the same
}

if __name__ == "__main__":
    main()
