"""The built-in benchmark: synthetic scenes, so that everything runs without a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rebll_avalanche.arguments import check_number
from rebll_avalanche.benchmarks.devkit import write_coco_split, write_csv_split, write_voc_split
from rebll_avalanche.benchmarks.drawing import Scenes, draw_scenes
from rebll_avalanche.benchmarks.generator import MultiLabelBenchmark
from rebll_avalanche.benchmarks.shapes import CLASSES
from rebll_avalanche.benchmarks.transforms import LARGEST_SIDE
from rebll_avalanche.scenario import Experiences, Scenario

# More are a slip, and would fill all memory.
MOST_SCENES = 10**7


class MultiLabelScenes(MultiLabelBenchmark):
    """Streams of synthetic scenes: 20 classes, several objects per scene, VOC's class frequencies.

    One class is in 40 % of the scenes, the rarest in 2 %, and a scene has 1.46 labels on average.
    Scenes are drawn in seconds, once per process.

    Args:
        scenario: ``"B5-C3"``, one list of classes per experience, or a :class:`Scenario`.
        train_size: Number of training scenes.
        test_size: Number of test scenes, which are drawn independently.
        image_size: Side in pixels.
        seed: Seed of the scenes and of the validation split.
        **options: See :func:`multilabel_benchmark`.

    >>> benchmark = MultiLabelScenes("B10-C5", train_size=100, test_size=50)
    >>> len(benchmark.train_stream), benchmark.class_names[:3]
    (3, ['arrow', 'bolt', 'bullseye'])
    """

    def __init__(
        self,
        scenario: str | Experiences | Scenario = "B5-C3",
        *,
        train_size: int = 2000,
        test_size: int = 1000,
        image_size: int = 48,
        seed: int = 0,
        **options: Any,
    ) -> None:
        check_number("train_size", train_size, 1, MOST_SCENES, whole=True)
        check_number("test_size", test_size, 1, MOST_SCENES, whole=True)
        check_number("image_size", image_size, 8, LARGEST_SIDE, whole=True)
        check_number("seed", seed, 0, 2**63 - 1, whole=True)
        self.scenes: dict[str, Scenes] = {
            "train": draw_scenes(train_size, image_size, seed, 0),
            "test": draw_scenes(test_size, image_size, seed, 1),
        }
        train, test = ((part.images, part.labels) for part in self.scenes.values())
        super().__init__(train, test, scenario, class_names=list(CLASSES), seed=seed, **options)

    def write_voc(self, root: str | Path) -> None:
        """Write all scenes as ``root/VOCdevkit/VOC2007``, training scenes as trainval."""
        train, test = self.scenes["train"], self.scenes["test"]
        write_voc_split(Path(root), "trainval", train, list(CLASSES))
        write_voc_split(Path(root), "test", test, list(CLASSES), first=len(train.images) + 1)

    def write_coco(self, root: str | Path) -> None:
        """Write all scenes in the layout of MS-COCO 2014, test scenes as val2014."""
        for split, ours in (("train2014", "train"), ("val2014", "test")):
            write_coco_split(Path(root), split, self.scenes[ours], list(CLASSES))

    def write_csv(self, root: str | Path) -> None:
        """Write all scenes as ``root/labels.csv`` and ``root/images``, for :func:`from_csv`."""
        Path(root, "labels.csv").unlink(missing_ok=True)
        for split in ("train", "test"):
            write_csv_split(Path(root), split, self.scenes[split], list(CLASSES))
