"""``rebll predict``: predict labels of images with a learner or a run's model."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebll_avalanche.commands.options import means_learner
from rebll_avalanche.words import printable, told

if TYPE_CHECKING:
    from rebll_avalanche.inference.predictor import TrainedModel

HELP = """Predict the labels of images with a learner or a run's model: names and scores above
a threshold.
Unreadable files are reported and skipped; the exit code is 1 if there were any."""

BATCH = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", type=Path, help="a .rebll file or a run folder")
    parser.add_argument(
        "images", nargs="+", help="image files, folders, or - to read names from standard input"
    )
    parser.add_argument(
        "--threshold",
        type=probability,
        help="scores above it are labels (default: the run's own, or the learner's for each class)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per image and line")
    parser.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help="write a table there: image, labels, score per class",
    )
    parser.add_argument(
        "--cam", type=Path, metavar="DIR", help="write class activation maps of the labels there"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print predictions; return 1 if an image could not be read."""
    model = _model(arguments.run, arguments.threshold)
    problems = Problems()
    files = image_files(arguments.images, sys.stdin, problems)
    rows: list[tuple[Path, dict[str, float]]] = []
    read_by_someone = True
    while batch := list(islice(files, BATCH)):
        pictures = problems.read(batch)
        if not pictures:
            continue
        answers = model.scores([picture for _, picture in pictures])
        for (path, picture), scores in zip(pictures, answers, strict=True):
            written = []
            if arguments.cam is not None:
                labels = model.labels(scores)
                written = write_maps(model.trained(), picture, path, labels, arguments.cam)
            if arguments.csv is not None:
                rows.append((path, scores))
            line = (
                _as_json(path, scores, model, written)
                if arguments.json
                else printable(_as_text(path, scores, model))
            )
            try:
                if read_by_someone:
                    print(line, flush=True)
            except BrokenPipeError:
                if arguments.csv is None:
                    raise
                read_by_someone = False  # as with `| head`; the table is wanted all the same
    if arguments.csv is not None:
        _write_csv(arguments.csv, rows, model)
    return 1 if problems.count else 0


@dataclass(frozen=True)
class Model:
    """A learner or the model of a run.

    Attributes:
        scores: Returns the score of every class for each picture, highest first.
        thresholds: One per class.
        threshold: The threshold of all classes, if they share one.
        trained: Returns the network for class activation maps.
    """

    scores: Callable[[list[Any]], list[dict[str, float]]]
    thresholds: Mapping[str, float]
    threshold: float | None
    trained: Callable[[], TrainedModel]

    def labels(self, scores: Mapping[str, float]) -> list[str]:
        """Classes above their threshold."""
        return [name for name, score in scores.items() if score > self.thresholds[name]]


def _model(path: Path, threshold: float | None) -> Model:
    if means_learner(path):
        from rebll_avalanche.learner import Learner

        learner = Learner.load(path)
        found = dict(learner.thresholds)
        if threshold is not None:
            found = dict.fromkeys(found, threshold)
        return Model(learner.ranked, found, threshold, lambda: learner.trained_model(path.name))
    from rebll_avalanche.inference.predictor import load_run

    trained = load_run(path)
    threshold = trained.threshold if threshold is None else threshold
    thresholds = dict.fromkeys(trained.class_names, threshold)
    return Model(trained.predict, thresholds, threshold, lambda: trained)


class Problems:
    """Reports unreadable files on standard error and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def report(self, message: str) -> None:
        """Print a problem and count it."""
        self.count += 1
        print(f"skipped: {told(message)}", file=sys.stderr)

    def read(self, paths: Iterable[Path]) -> list[tuple[Path, Any]]:
        """The readable images, with their paths."""
        from rebll_avalanche.pictures import read_picture

        pictures = []
        for path in paths:
            try:
                pictures.append((path, read_picture(path)))
            except ValueError as error:
                self.report(str(error))
        return pictures


def image_files(names: Iterable[str], lines: Iterable[str], problems: Problems) -> Iterator[Path]:
    """Expand names to image files: a file, a folder's files, or for ``-`` the files in ``lines``."""
    for name in names:
        if name == "-":
            yield from (Path(line.strip()) for line in lines if line.strip())
        elif Path(name).is_dir():
            from rebll_avalanche.pictures import pictures_in

            inside = pictures_in(Path(name))
            if not inside:
                problems.report(f"there are no images in {name}")
            yield from inside
        else:
            yield Path(name)


def write_maps(
    trained: TrainedModel, picture: Any, path: Path, labels: Iterable[str], folder: Path
) -> list[dict[str, str]]:
    """Write one overlay per label; return the labels and files."""
    from rebll_avalanche.inference.predictor import overlay

    names = list(labels)
    if not names:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    maps = trained.activation_maps(trained.prepare([picture]))[0]
    written = []
    for name in names:
        file = free_name(folder, f"{path.stem}-{plain_name(name)}")
        overlay(picture, maps[trained.class_names.index(name)]).save(file, quality=88)
        written.append({"label": name, "file": str(file)})
    return written


def plain_name(label: str) -> str:
    """A label as a part of a file name.

    >>> plain_name("dining table/desk")
    'dining_table_desk'
    """
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in label)


def free_name(folder: Path, stem: str) -> Path:
    """A file name not yet in use: images of different folders may share a name."""
    path, number = folder / f"{stem}.jpg", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.jpg"
    return path


def probability(text: str) -> float:
    """Parse a number from 0 to 1, for argparse."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"a probability must lie between 0 and 1, got {text}")
    return number


def _as_json(path: Path, scores: dict[str, float], model: Model, maps: list[dict[str, str]]) -> str:
    answer: dict[str, Any] = {
        "image": str(path),
        "threshold": dict(model.thresholds) if model.threshold is None else model.threshold,
        "labels": model.labels(scores),
        "scores": {name: round(score, 6) for name, score in scores.items()},
    }
    return json.dumps(answer | ({"maps": maps} if maps else {}), ensure_ascii=False)


def _as_text(path: Path, scores: dict[str, float], model: Model) -> str:
    labels = [f"{name} {scores[name]:.2f}" for name in model.labels(scores)]
    bar = "their thresholds" if model.threshold is None else f"{model.threshold:g}"
    if labels:
        return f"{path}: {', '.join(labels)} (above {bar})"
    name, score = next(iter(scores.items()))
    return f"{path}: nothing above {bar}; highest is {name} {score:.2f}"


def _write_csv(path: Path, rows: list[tuple[Path, dict[str, float]]], model: Model) -> None:
    from rebll_avalanche.files import write_text

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["image", "labels", *model.thresholds])
    for image, scores in rows:
        numbers = [f"{scores[name]:.6f}" for name in model.thresholds]
        writer.writerow([image, ";".join(model.labels(scores)), *numbers])
    write_text(path, stream.getvalue())
