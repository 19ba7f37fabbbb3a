"""The images that a memory refers to, kept beside its state: it goes on when their files are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.benchmarks.generator import MultiLabelExperience
from rebll_avalanche.benchmarks.images import EncodedPictures, Rows, Source
from rebll_avalanche.benchmarks.kept import KeptPictures
from rebll_avalanche.benchmarks.transforms import as_pillow, is_picture, resize
from rebll_avalanche.memory import Memory
from rebll_avalanche.picture_store import PictureStore, training_picture
from rebll_avalanche.protocols import Strategy

# By experience: tensors as they are, pictures as a store of encoded ones.
Kept = dict[int, Any]


def memory_of(strategy: Strategy) -> Memory | None:
    """The replay memory of the first plugin that has one of this package's type."""
    for plugin in strategy.plugins:
        memory = getattr(plugin, "memory", None)
        if isinstance(memory, Memory):
            return memory
    return None


def keep_images(memory: Memory | None, stream: Any, side: int | None) -> Kept:
    """Read the images of a memory, whose references are counted anew within them.

    The memory can only be saved afterwards.

    Args:
        memory: After an experience.
        stream: The training stream that it refers to.
        side: Pictures are kept as squares of so many pixels, as training begins with; in their own size
            if not given.
    """
    kept: Kept = {}
    if memory is None:
        return kept
    for number in sorted(set(memory.experience.tolist())):
        rows, _ = memory.rows_of(number)
        kept[number] = _together(_raw(stream[number], memory.index[rows], side))
        memory.index[rows] = torch.arange(len(rows))
    return kept


def kept_sources(kept: Mapping[int, Any]) -> dict[int, Source]:
    """What :func:`keep_images` has kept, to be read again.

    Raises:
        DamagedError: When it is not what was kept.
    """
    return {
        number: Rows(images)
        if isinstance(images, Tensor)
        else EncodedPictures(list(PictureStore.from_dict(images).pictures.values()))
        for number, images in kept.items()
    }


def _raw(
    experience: MultiLabelExperience, samples: Tensor, side: int | None
) -> Iterator[bytes | Tensor]:
    """Encoded pictures, or tensors."""
    for sample in samples.tolist():
        source, index = experience.raw_input(sample)
        files = source.files if isinstance(source, KeptPictures) else source
        if isinstance(files, EncodedPictures):  # never encoded a second time
            yield files.contents[index]
            continue
        found = source[index]
        if not is_picture(found):
            yield torch.as_tensor(found)
            continue
        picture = as_pillow(found)
        yield training_picture(picture if side is None else resize(picture, side))


def _together(images: Iterator[bytes | Tensor]) -> Any:
    listed = list(images)
    tensors = [image for image in listed if isinstance(image, Tensor)]
    if tensors:
        return torch.stack(tensors)
    encoded = [image for image in listed if isinstance(image, bytes)]
    return PictureStore(pictures=dict(enumerate(encoded))).to_dict()
