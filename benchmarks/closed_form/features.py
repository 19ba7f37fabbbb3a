"""Pooled features of real images, computed once per backbone and resolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from rebll_avalanche.benchmarks.coco import read_coco
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.label_cache import LabelTable
from rebll_avalanche.benchmarks.transforms import KeepAspect, Transform, to_unit_range
from rebll_avalanche.benchmarks.voc import VOC_CLASSES, read_voc
from rebll_avalanche.experiment.features import pooled_features
from rebll_avalanche.models import build_model

FOLDERS = {"voc": "voc2007_small", "coco": "coco2014_small"}


class View(NamedTuple):
    """What a backbone is shown: squares, or pictures of about their own shape with that shorter side."""

    backbone: str
    image_size: int
    keep_aspect: bool = False

    def transform(self) -> Transform:
        """From a picture to the backbone's input."""
        if self.keep_aspect:
            return KeepAspect(self.image_size, Image.Resampling.BICUBIC)
        return self._squashed

    def _squashed(self, picture: Image.Image) -> Tensor:
        size = (self.image_size, self.image_size)
        return to_unit_range(picture.resize(size, Image.Resampling.BICUBIC))


@dataclass(frozen=True)
class Split:
    """Images of a split as feature vectors, with their labels."""

    features: Tensor
    labels: Tensor


def label_table(data: str, root: Path, split: str) -> LabelTable:
    """Paths and labels of ``train``, ``val``, ``trainval`` or ``test``.

    VOC is cut into its own train and val. COCO's train images are cut by a seed: a quarter is val.
    """
    folder = root / FOLDERS[data]
    if data == "voc":
        return read_voc(folder, "2007", split, VOC_CLASSES)
    return read_coco(folder, "val2014" if split == "test" else "train2014")


def rows_of(data: str, split: str, images: int) -> Tensor:
    """Which rows of a label table belong to the split."""
    if data == "voc" or split in ("trainval", "test"):
        return torch.arange(images)
    order = torch.from_numpy(np.random.RandomState(0).permutation(images))
    held_out = images // 4
    return order[:held_out] if split == "val" else order[held_out:]


def load_split(data: str, root: Path, split: str, views: Sequence[View], cache: Path) -> Split:
    """Features of several views side by side."""
    table = label_table(data, root, split)
    rows = rows_of(data, split, len(table.labels))
    names = [Path(table.files.path(index)).stem for index in range(len(table.labels))]
    columns = []
    for view in views:
        stored = _features(data, root, view, cache)
        columns.append(torch.stack([stored[names[row]] for row in rows.tolist()]))
    labels = torch.as_tensor(table.labels)[rows]
    return Split(torch.cat(columns, dim=1), labels)


def _features(data: str, root: Path, view: View, cache: Path) -> dict[str, Tensor]:
    shape = "-aspect" if view.keep_aspect else ""
    file = cache / f"{data}-{view.backbone}-{view.image_size}{shape}.pt"
    if not file.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        paths = {}
        for split in ("trainval", "test"):
            files = label_table(data, root, split).files
            paths |= {Path(files.path(i)).stem: files.path(i) for i in range(len(files))}
        model = build_model(view.backbone, pretrained="pypi").eval()
        found = pooled_features(model, ImageFiles(list(paths.values())), view.transform())
        torch.save({"names": list(paths), "features": found}, file)
    stored = torch.load(file)
    return dict(zip(stored["names"], stored["features"], strict=True))
