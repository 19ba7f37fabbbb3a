"""Features of images in blocks, and in batches of one image size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from rebll_avalanche.benchmarks.images import ImageFiles, Source
from rebll_avalanche.benchmarks.transforms import Transform
from rebll_avalanche.models.build import modules_until
from rebll_avalanche.models.stages import OutputTap
from rebll_avalanche.models.windows import window_means

if TYPE_CHECKING:
    from rebll_avalanche.benchmarks.features import FrozenFeatures

Pictures = Source | Sequence[Any]
# Per batch: 32 images of 224 px, fewer if they are larger, so that memory use stays constant.
BATCH_PIXELS = 32 * 224**2
# Images at a time: whole batches of square ones. Batches never reach over the end of a block, so that blocks
# can be computed anywhere, to the same bits.
BATCHES_PER_BLOCK = 16
# Images of different sizes that may wait for their batch to fill up.
WAITING_PIXELS = 8 * BATCH_PIXELS


def pooled_features(model: nn.Module, source: Pictures, transform: Transform) -> Tensor:
    """Average-pool a model's last feature map for every image of a source.

    Args:
        model: A model in evaluation mode, with a method ``features``.
        source: Images, all of which decode.
        transform: Converts an image to the model's input.
    """
    return computed(lambda x: model.features(x).mean(dim=(2, 3)), source, transform)  # type: ignore[operator]


def window_features(model: nn.Module, source: Pictures, transform: Transform) -> Tensor:
    """Pooled features of windows of every image: ``[images, windows, channels]``."""
    return computed(lambda x: window_means(model.features(x)), source, transform)  # type: ignore[operator]


def map_until(model: nn.Module, name: str, batch: Tensor) -> Tensor:
    """Output of one part of the model's backbone."""
    backbone: nn.Module = model.backbone  # type: ignore[assignment]
    tap = OutputTap()
    tap.open(modules_until(getattr(backbone, "network", backbone), name)[-1])
    model.features(batch)  # type: ignore[operator]
    output: Tensor
    (output,) = tap.close()
    return output


class Some:
    """Some of the pictures, in order.

    Args:
        pictures: By index.
        indices: Which.

    Attributes:
        tick: Called whenever a picture is read.
    """

    pictures = True

    def __init__(self, pictures: Pictures, indices: Sequence[int]) -> None:
        self._pictures = pictures
        self._indices = indices
        self.tick: Callable[[], object] = lambda: None

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, number: int) -> Any:
        self.tick()
        return self._pictures[self._indices[number]]

    def __reduce__(self) -> tuple[Any, ...]:
        """To another process go these pictures only, and of files only their names."""
        if isinstance(self._pictures, ImageFiles):
            files = [self._pictures.path(index) for index in self._indices]
            return Some, (ImageFiles(files), range(len(files)))
        return Some, ([self[number] for number in range(len(self))], range(len(self)))


def usable_rows(pictures: Pictures) -> list[int]:
    """The indices of those that decode."""
    broken = set()
    if isinstance(pictures, ImageFiles):
        broken = {index for index, content in enumerate(pictures.contents()) if content.problem}
    return [index for index in range(len(pictures)) if index not in broken]


def in_blocks(pictures: Pictures, rows: Sequence[int], side: int) -> list[Some]:
    """Some of the pictures, in blocks of whole batches if they are squares of this side."""
    size = BATCHES_PER_BLOCK * max(1, BATCH_PIXELS // side**2)
    return [Some(pictures, rows[start : start + size]) for start in range(0, len(rows), size)]


def in_turn(maker: FrozenFeatures, blocks: Sequence[Some]) -> Iterator[Tensor]:
    """The features of blocks, computed here."""
    with tqdm(
        total=sum(map(len, blocks)) * (1 + maker.windows),
        desc="features",
        unit="picture",
        disable=None,
        leave=False,
    ) as bar:
        for block in blocks:
            block.tick = bar.update
            yield maker.of_block(block)


@torch.inference_mode()
def computed(
    function: Callable[[Tensor], Tensor],
    source: Pictures,
    transform: Transform,
    *,
    progress: bool = False,
) -> Tensor:
    """Apply a function of batches to all images, in batches of one image size.

    Raises:
        ValueError: When there is no image.
    """
    result: Tensor | None = None
    waiting: dict[torch.Size, dict[int, Tensor]] = {}

    def pixels(size: torch.Size) -> int:
        return len(waiting[size]) * size[-2] * size[-1]

    def look_at(size: torch.Size) -> None:
        nonlocal result
        batch = waiting.pop(size)
        found = function(torch.stack(list(batch.values())))
        if result is None:
            result = torch.zeros(len(source), *found.shape[1:])
        result[list(batch)] = found

    disable = None if progress else True  # None: shown in a terminal only
    for index in tqdm(
        range(len(source)), desc="pictures", unit="picture", disable=disable, leave=False
    ):
        picture = transform(source[index])
        size = picture.shape
        waiting.setdefault(size, {})[index] = picture
        if pixels(size) + size[-2] * size[-1] > BATCH_PIXELS:  # one more would be too many
            look_at(size)
        elif sum(map(pixels, waiting)) > WAITING_PIXELS:
            look_at(max(waiting, key=pixels))
    for size in list(waiting):
        look_at(size)
    if result is None:
        raise ValueError("no image to compute features of; pass at least one")
    return result.clone()
