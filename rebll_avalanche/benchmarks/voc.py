"""PASCAL VOC as a stream of experiences."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rebll_avalanche.arguments import check_path
from rebll_avalanche.benchmarks.generator import MultiLabelBenchmark
from rebll_avalanche.benchmarks.label_cache import LabelTable, cached_table
from rebll_avalanche.benchmarks.transforms import for_photographs
from rebll_avalanche.errors import MissingFileError, TableError
from rebll_avalanche.scenario import Experiences, Scenario
from rebll_avalanche.tables.table import POLICIES
from rebll_avalanche.tables.text import decoded, read_bytes
from rebll_avalanche.tables.voc import read_objects
from rebll_avalanche.words import check_choice

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train",
    "tvmonitor",
)  # fmt: skip
# The annotations of the test images of 2012 were never published.
SPLITS = {"2007": ("trainval", "test"), "2012": ("train", "val")}


class VOC2007(MultiLabelBenchmark):
    """Streams from a VOC devkit: training on ``trainval``, testing on ``test``.

    Args:
        scenario: ``"B5-C3"``, one list of classes per experience, or a :class:`Scenario`.
        root: The folder that holds ``VOCdevkit``.
        year: ``"2007"``, or ``"2012"`` for its ``train`` and ``val`` images.
        download: Fetch what is missing through torchvision.
        difficult: Label for a class whose only instances are marked difficult:
            ``"drop"`` absent, as is common; ``"keep"`` present; ``"unknown"`` not annotated.
        class_names: The classes, for a devkit with other classes than VOC.
        **options: See :func:`multilabel_benchmark`. ``image_size`` is 224 and training uses the paper's
            augmentation, :func:`training_transform`, unless given.
    """

    def __init__(
        self,
        scenario: str | Experiences | Scenario,
        *,
        root: str | Path = "data",
        year: str = "2007",
        download: bool = False,
        difficult: str = "drop",
        class_names: Sequence[str] = VOC_CLASSES,
        **options: Any,
    ) -> None:
        check_choice("year", year, SPLITS)
        check_choice("difficult", difficult, POLICIES)
        train, test = (
            read_voc(root, year, split, class_names, difficult=difficult, download=download)
            for split in SPLITS[year]
        )
        super().__init__(
            (train.files, train.labels),
            (test.files, test.labels),
            scenario,
            class_names=list(class_names),
            **for_photographs(**options),
        )


def read_voc(
    root: str | Path,
    year: str,
    split: str,
    class_names: Sequence[str],
    *,
    difficult: str = "drop",
    download: bool = False,
) -> LabelTable:
    """The label table of one split of a devkit; see :class:`VOC2007`.

    Raises:
        FileNotFoundError: When the devkit or one of its annotations is missing.
        ValueError: When an annotation cannot be read or names an unknown class.
    """
    check_path("root", root, needed=True)
    devkit = Path(root).expanduser().resolve() / "VOCdevkit" / f"VOC{year}"
    listing = devkit / "ImageSets" / "Main" / f"{split}.txt"
    if not listing.is_file() and download:
        from torchvision.datasets import VOCDetection

        VOCDetection(str(root), year=year, image_set=split, download=True)
    if not listing.is_file():
        raise MissingFileError(
            f"no VOC {year} {split} images: {listing} is missing; name the folder that holds VOCdevkit "
            "(--data-root on a command line, root= in Python), or download it with download=True in Python"
        )
    text, _ = decoded(read_bytes(listing), str(listing))
    names = [line.split()[0] for line in text.splitlines() if line.strip()]
    folder, images = devkit / "Annotations", devkit / "JPEGImages"
    for needed in (folder, images):
        if not needed.is_dir():
            raise MissingFileError(f"{needed} is missing; the download is incomplete")
    present = set(os.listdir(folder))
    missing = [name for name in names if f"{name}.xml" not in present]
    if missing:
        raise MissingFileError(
            f"{len(missing)} of {len(names)} annotations of {split} are missing, the first is "
            f"{folder / missing[0]}.xml; the download is incomplete"
        )
    annotations = [f"{folder}/{name}.xml" for name in names]

    def read() -> tuple[list[str], np.ndarray, list[str]]:
        columns = {name: column for column, name in enumerate(class_names)}
        labels = np.zeros((len(names), len(columns)), dtype=np.float32)
        for row, path in zip(labels, annotations, strict=True):
            _read_annotation(path, row, columns, POLICIES[difficult])
        return [f"{name}.jpg" for name in names], labels, list(class_names)

    settings = f"voc {difficult} {' '.join(class_names)}"
    return cached_table([str(listing), *annotations], settings, images, read)


def _read_annotation(
    path: str, row: np.ndarray, columns: dict[str, int], difficult_label: float
) -> None:
    plain: set[int] = set()
    difficult: set[int] = set()
    for name, marked in read_objects(path):
        if name not in columns:
            raise TableError(
                f"{path} names the unknown class {name!r}; the classes are {', '.join(columns)}"
            )
        (difficult if marked else plain).add(columns[name])
    row[list(difficult)] = difficult_label
    row[list(plain)] = 1.0
