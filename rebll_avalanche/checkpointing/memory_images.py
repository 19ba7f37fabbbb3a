"""Store the images of a memory with the captured state, so that it can continue without their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.benchmarks.experience import MultiLabelExperience
from rebll_avalanche.benchmarks.images import EncodedPictures, Rows, Source
from rebll_avalanche.benchmarks.kept import KeptPictures
from rebll_avalanche.benchmarks.transforms import as_pillow, is_picture, resize
from rebll_avalanche.labels import label_matrix
from rebll_avalanche.memory import Memory
from rebll_avalanche.picture_store import PictureStore, training_picture
from rebll_avalanche.protocols import Strategy

# By experience: tensors as they are, pictures as a store of encoded ones.
Kept = dict[int, Any]
_MEMORY = {"experience", "index", "labels", "provenance"}


def memory_of(strategy: Strategy) -> Memory | None:
    """The replay memory of the first plugin that has one of this package's type."""
    for plugin in strategy.plugins:
        memory = getattr(plugin, "memory", None)
        if isinstance(memory, Memory):
            return memory
    return None


def with_own_images(captured: dict[str, Any], stream: Any, side: int | None) -> dict[str, Any]:
    """A captured state with the images that it needs, within which its references are counted.

    Args:
        captured: State of a strategy after an experience; it is not changed.
        stream: The training stream that it refers to.
        side: Pictures are kept as squares of so many pixels, as training begins with; in their own size
            if not given.

    Returns:
        ``strategy`` (the state), and by experience ``memory_images`` and ``memory_labels``, which the images
        had there.
    """
    needed: dict[int, set[int]] = {}

    def note(numbers: Tensor, indices: Tensor) -> Tensor:
        for number, index in zip(numbers.tolist(), indices.tolist(), strict=True):
            needed.setdefault(number, set()).add(index)
        return indices

    _with_references(captured["plugins"], note)
    rows = {number: sorted(needed[number]) for number in sorted(needed)}
    places = {number: {index: at for at, index in enumerate(rows[number])} for number in rows}

    def place(numbers: Tensor, indices: Tensor) -> Tensor:
        pairs = zip(numbers.tolist(), indices.tolist(), strict=True)
        return indices.new_tensor([places[number][index] for number, index in pairs])

    images: Kept = {n: _together(_raw(stream[n], rows[n], side)) for n in rows}
    return {
        "strategy": captured | {"plugins": _with_references(captured["plugins"], place)},
        "memory_images": images,
        "memory_labels": {n: label_matrix(stream[n].dataset)[rows[n]] for n in rows},
    }


def are_kept(captured: dict[str, Any], kept: Kept) -> bool:
    """Whether all images that a state refers to are there."""
    counts = {number: len(source) for number, source in kept_sources(kept).items()}
    there = [True]

    def look(numbers: Tensor, indices: Tensor) -> Tensor:
        pairs = zip(numbers.tolist(), indices.tolist(), strict=True)
        there.extend(index < counts.get(number, 0) for number, index in pairs)
        return indices

    _with_references(captured["plugins"], look)
    return all(there)


def kept_sources(kept: Mapping[int, Any]) -> dict[int, Source]:
    """The images of :func:`with_own_images`, to be read again.

    Raises:
        DamagedError: When they are not what was kept.
    """
    return {
        number: Rows(images)
        if isinstance(images, Tensor)
        else EncodedPictures(list(PictureStore.from_dict(images).pictures.values()))
        for number, images in kept.items()
    }


def _with_references(
    state: Any, change: Callable[[Tensor, Tensor], Tensor], *, in_buffer: bool = False
) -> Any:
    """A state with other indices of images.

    A :class:`Memory` and Avalanche's storage policies refer to images; so does ``Cumulative``, but to all.

    Args:
        state: Of plugins.
        change: Gets the experiences and the indices of some images, and returns other indices.
        in_buffer: Whether it is part of a storage policy.
    """
    if isinstance(state, list | tuple):
        return type(state)(_with_references(entry, change, in_buffer=in_buffer) for entry in state)
    if not isinstance(state, dict):
        return state
    if state.get("@") == "images" and in_buffer:
        numbers, indices = state["of"].unbind(1)
        return state | {"of": torch.stack([numbers, change(numbers, indices)], dim=1)}
    if state.keys() >= _MEMORY:
        return state | {"index": change(state["experience"], state["index"])}
    inside = in_buffer or state.get("@") == "object"
    return {key: _with_references(each, change, in_buffer=inside) for key, each in state.items()}


def _raw(
    experience: MultiLabelExperience, samples: list[int], side: int | None
) -> Iterator[bytes | Tensor]:
    """Encoded pictures, or tensors."""
    for sample in samples:
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
