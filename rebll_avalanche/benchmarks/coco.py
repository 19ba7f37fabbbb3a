"""MS-COCO as a stream of experiences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rebll_avalanche.arguments import check_path
from rebll_avalanche.benchmarks.generator import MultiLabelBenchmark
from rebll_avalanche.benchmarks.label_cache import LabelTable, cached_table
from rebll_avalanche.benchmarks.transforms import for_photographs
from rebll_avalanche.errors import MissingFileError, TableError
from rebll_avalanche.scenario import Experiences, Scenario
from rebll_avalanche.tables.coco import read_coco_file
from rebll_avalanche.tables.table import POLICIES
from rebll_avalanche.words import check_choice


class COCO2014(MultiLabelBenchmark):
    """Streams from MS-COCO 2014: training on ``train2014``, testing on ``val2014``.

    Columns are the classes in alphabetical order. Images without any object are in no experience.

    Args:
        scenario: ``"B20-C4"``, one list of classes per experience, or a :class:`Scenario`.
        root: The folder that holds ``train2014``, ``val2014`` and ``annotations``.
        crowd: Label for a class whose only instances are marked as a crowd: ``"drop"`` absent,
            ``"keep"`` present, ``"unknown"`` not annotated.
        **options: See :func:`multilabel_benchmark`. ``image_size`` is 224 and training uses the paper's
            augmentation, :func:`training_transform`, unless given.
    """

    def __init__(
        self,
        scenario: str | Experiences | Scenario,
        *,
        root: str | Path = "data",
        crowd: str = "drop",
        **options: Any,
    ) -> None:
        check_choice("crowd", crowd, POLICIES)
        train, test = (read_coco(root, split, crowd=crowd) for split in ("train2014", "val2014"))
        if train.class_names != test.class_names:
            differing = sorted(set(train.class_names) ^ set(test.class_names))
            raise TableError(
                f"train2014 and val2014 do not have the same classes: {', '.join(differing)}"
            )
        super().__init__(
            (train.files, train.labels),
            (test.files, test.labels),
            scenario,
            class_names=train.class_names,
            **for_photographs(**options),
        )


def read_coco(root: str | Path, split: str, *, crowd: str = "drop") -> LabelTable:
    """The label table of one split; see :class:`COCO2014`.

    Raises:
        FileNotFoundError: When annotations or images are missing.
        ValueError: When the annotations cannot be read.
    """
    check_path("root", root, needed=True)
    folder = Path(root).expanduser().resolve()
    annotations, images = folder / "annotations" / f"instances_{split}.json", folder / split
    for path in (annotations, images):
        if not path.exists():
            raise MissingFileError(
                f"no COCO {split} images: {path} is missing; name the folder that holds annotations and "
                f"{split} (--data-root on a command line, root= in Python)"
            )
    return cached_table([annotations], f"coco {crowd}", images, lambda: _read(annotations, crowd))


def _read(annotations: Path, crowd: str) -> tuple[list[str], np.ndarray, list[str]]:
    table = read_coco_file(annotations, crowd=crowd)
    return list(table.images), table.labels, list(table.class_names)
