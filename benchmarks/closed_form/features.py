"""Pooled features of real images, computed once per backbone and resolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from rebll_avalanche.benchmarks.coco import read_coco
from rebll_avalanche.benchmarks.feature_batches import pooled_features, window_features
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.label_cache import LabelTable
from rebll_avalanche.benchmarks.transforms import KeepAspect, Transform, to_unit_range
from rebll_avalanche.benchmarks.voc import VOC_CLASSES, read_voc
from rebll_avalanche.models import build_model
from rebll_avalanche.models.windows import ENLARGED

FOLDERS = {"voc": "voc2007_small", "coco": "coco2014_small"}


class View(NamedTuple):
    """Input of a backbone: squares, or images of about their aspect ratio with that shorter side."""

    backbone: str
    image_size: int
    keep_aspect: bool = False
    windows: bool = False

    def transform(self) -> Transform:
        """Converts an image to the backbone's input."""
        if self.keep_aspect:
            return KeepAspect(self.image_size)
        return self._squashed

    def enlarged(self) -> View:
        """The larger view that windows are cut out of."""
        return self._replace(image_size=round(ENLARGED * self.image_size))

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
    """Concatenated features of several views."""
    table = label_table(data, root, split)
    rows = rows_of(data, split, len(table.labels))
    names = [Path(table.files.path(index)).stem for index in rows.tolist()]
    columns = []
    for view in views:
        vectors = _stored(data, root, view, cache, pooled_features, names)
        if view.windows:
            parts = _stored(data, root, view.enlarged(), cache, window_features, names)
            vectors = torch.cat([vectors.unsqueeze(1), parts], dim=1)
        columns.append(vectors)
    labels = torch.as_tensor(table.labels)[rows]
    return Split(torch.cat(columns, dim=-1), labels)


def _stored(
    data: str,
    root: Path,
    view: View,
    cache: Path,
    make: Callable[..., Tensor],
    names: list[str],
) -> Tensor:
    """Features of the named images; those of the whole data set are computed once."""
    kind = ("-aspect" if view.keep_aspect else "") + ("-windows" if make is window_features else "")
    file = cache / f"{data}-{view.backbone}-{view.image_size}{kind}.pt"
    if not file.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        paths = {}
        for split in ("trainval", "test"):
            files = label_table(data, root, split).files
            paths |= {Path(files.path(i)).stem: files.path(i) for i in range(len(files))}
        model = build_model(view.backbone, pretrained="pypi").eval()
        found = make(model, ImageFiles(list(paths.values())), view.transform())
        torch.save({"names": list(paths), "features": found}, file)
    stored = torch.load(file)
    place = {name: index for index, name in enumerate(stored["names"])}
    vectors: Tensor = stored["features"][[place[name] for name in names]]
    return vectors
