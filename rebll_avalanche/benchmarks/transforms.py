"""Transforms from an image to the network's input tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from rebll_avalanche.arguments import check_number
from rebll_avalanche.words import brief

# Larger numbers are slips, and would fill all memory.
LARGEST_SIDE = 2**15
Transform = Callable[[Any], Any]
MeanAndStd = tuple[Sequence[float], Sequence[float]]
# A Pillow image, or a cached one as uint8 [height, width, 3].
Picture = Image.Image | np.ndarray


def is_picture(given: Any) -> bool:
    """Whether an input is a Pillow image or an image array, not other numbers."""
    if isinstance(given, np.ndarray):
        return given.dtype == np.uint8 and given.ndim == 3 and given.shape[2] == 3
    return isinstance(given, Image.Image)


def as_pillow(picture: Picture) -> Image.Image:
    """Convert an image to Pillow, as most transforms expect."""
    return Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture


def to_unit_range(picture: Picture | Tensor) -> Tensor:
    """Convert an image to ``float32 [3, height, width]`` between 0 and 1.

    Args:
        picture: RGB image; a tensor is ``uint8`` and already channels first.
    """
    if isinstance(picture, Tensor):
        return picture.to(torch.float32, memory_format=torch.contiguous_format).div_(255)
    pixels = np.asarray(picture)
    numbers = np.empty((3, *pixels.shape[:2]), np.float32)
    _fill(numbers, pixels)
    return torch.from_numpy(numbers)


def unit_batch(pictures: np.ndarray, rows: Sequence[int]) -> Tensor:
    """Apply :func:`to_unit_range` to some images of an array, writing directly into the batch.

    Args:
        pictures: ``uint8 [images, height, width, 3]``.
        rows: Indices of the images.
    """
    batch = torch.empty(len(rows), 3, *pictures.shape[1:3], dtype=torch.float32, device="cpu")
    for numbers, row in zip(batch.numpy(), rows, strict=True):
        _fill(numbers, pictures[row])
    return batch


def _fill(numbers: np.ndarray, pixels: np.ndarray) -> None:
    # Copied, then divided in place: twice as fast as a division that also converts, and as torch.
    np.copyto(numbers, pixels.transpose(2, 0, 1))
    numbers /= np.float32(255)


def squared(picture: Picture, image_size: int) -> Tensor:
    """Scale an image to a square, whatever its aspect ratio: ``uint8 [3, side, side]``.

    The one way in this package. torch computes what Pillow's bilinear ``resize`` does, within one grey level,
    in a quarter of the time.
    """
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    if pixels.shape[1:] == (image_size, image_size):
        return pixels
    batch = pixels.unsqueeze(0)
    return interpolate(batch, (image_size, image_size), mode="bilinear", antialias=True)[0]


def resize(picture: Image.Image, image_size: int) -> Image.Image:
    """:func:`squared` as a Pillow image."""
    if picture.size == (image_size, image_size):
        return picture
    return Image.fromarray(squared(picture, image_size).permute(1, 2, 0).numpy())


def size_with_aspect(size: tuple[int, int], shorter: int) -> tuple[int, int]:
    """Width and height close to an image's aspect ratio, with a given shorter side.

    Both are multiples of 32, as most networks halve their input five times, and at least ``shorter``.
    This leaves few different sizes, so images can be batched.

    >>> size_with_aspect((500, 375), 224)
    (288, 224)
    """
    scale = shorter / min(size)
    width, height = (max(32 * round(side * scale / 32), 32 * (shorter // 32), 32) for side in size)
    return width, height


class KeepAspect:
    """Convert an image to a tensor of about its aspect ratio, see :func:`size_with_aspect`.

    Uses Pillow's bicubic filter, because images are mostly enlarged here.
    """

    def __init__(self, shorter: int) -> None:
        self.shorter = shorter

    def __call__(self, picture: Picture) -> Tensor:
        given = as_pillow(picture)
        size = size_with_aspect(given.size, self.shorter)
        if size != given.size:
            given = given.resize(size, Image.Resampling.BICUBIC)
        return to_unit_range(given)


class Resize:
    """:func:`resize` with a fixed size."""

    def __init__(self, image_size: int) -> None:
        self.image_size = image_size

    def __call__(self, picture: Picture) -> Image.Image:
        return resize(as_pillow(picture), self.image_size)


class UnitSquare(Resize):
    """:func:`resize` and :func:`to_unit_range`, without a Pillow image between them."""

    def __call__(self, picture: Picture) -> Tensor:  # type: ignore[override]
        return to_unit_range(squared(picture, self.image_size))


def only_unit_range(steps: Sequence[Any], size: tuple[int, int]) -> bool:
    """Whether the transforms reduce to :func:`to_unit_range` for images of this size."""
    if len(steps) != 1:
        return False
    fits = type(steps[0]) is UnitSquare and size == (steps[0].image_size,) * 2
    return fits or steps[0] is to_unit_range


def _first(transform: Transform | None) -> Any:
    return next(iter(getattr(transform, "transforms", [transform])), None)


def first_size(transforms: Sequence[Transform | None]) -> int | None:
    """The side of the square to which all transforms resize first; None if they do not."""
    firsts = [_first(transform) for transform in transforms]
    sides = {first.image_size if isinstance(first, Resize) else None for first in firsts}
    return sides.pop() if len(sides) == 1 else None


def for_pictures(transform: Transform) -> Transform:
    """Wrap a transform so that it also accepts arrays."""
    first = _first(transform)
    if isinstance(first, Resize) or first is to_unit_range:
        return transform
    from torchvision.transforms import v2

    both: Transform = v2.Compose([as_pillow, transform])
    return both


class Cutout:
    """Cover one rectangle of an image with one random colour.

    Args:
        share: Width and height of the rectangle as a fraction of the image's. Its centre is anywhere
            in the image, so a part of it may be outside.
    """

    def __init__(self, share: float = 0.5) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"the covered share of each side must be in (0, 1], got {share}")
        self.share = share

    def __call__(self, picture: Image.Image) -> Image.Image:
        width, height = picture.size
        # Torch's generator, because data loaders seed it differently for each worker.
        along, down = torch.rand(2).tolist()
        half_width, half_height = self.share * width / 2, self.share * height / 2
        left, right = along * width - half_width, along * width + half_width
        top, bottom = down * height - half_height, down * height + half_height
        first = max(round(left), 0), max(round(top), 0)
        last = min(round(right), width), min(round(bottom), height)
        red, green, blue = torch.randint(256, (3,)).tolist()
        picture = picture.copy()
        picture.paste((red, green, blue), (*first, *last))
        return picture


def training_transform(
    image_size: int,
    *,
    cutout: float = 0.5,
    randaugment: bool = True,
    normalize: MeanAndStd | None = None,
) -> Transform:
    """The paper's augmentation: square, Cutout, RandAugment, [0, 1].

    Args:
        image_size: Side of the square.
        cutout: See :class:`Cutout`; 0 for none.
        randaugment: Whether to apply torchvision's ``RandAugment``.
        normalize: Mean and standard deviation per channel, for a network that expects normalised input.
            Models of :func:`rebll_avalanche.build_model` normalise it themselves.
    """
    from torchvision.transforms import v2  # not needed to predict, and slow to import

    check_number("cutout", cutout, 0, 1)
    steps: list[Transform] = [Resize(image_size)]
    if cutout:
        steps.append(Cutout(cutout))
    if randaugment:
        steps.append(v2.RandAugment())
    return _compose([*steps, to_unit_range], normalize)


def evaluation_transform(image_size: int, *, normalize: MeanAndStd | None = None) -> Transform:
    """Square and [0, 1], nothing random.

    Args:
        image_size: Side of the square.
        normalize: See :func:`training_transform`.
    """
    return _compose([UnitSquare(image_size)], normalize)


def for_photographs(
    *,
    image_size: int = 224,
    train_transform: Transform | None = None,
    eval_transform: Transform | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Options of a benchmark, with defaults for photographs.

    Args:
        image_size: Side of the square that images are resized to.
        train_transform: Instead of the paper's augmentation, :func:`training_transform`.
        eval_transform: Instead of :func:`evaluation_transform`.
        **options: See :func:`~rebll_avalanche.benchmarks.multilabel_benchmark`.
    """
    check_number("image_size", image_size, 1, LARGEST_SIDE, whole=True)
    return {
        "image_size": image_size,
        "train_transform": train_transform or training_transform(image_size),
        "eval_transform": eval_transform or evaluation_transform(image_size),
        **options,
    }


def _compose(steps: list[Transform], normalize: MeanAndStd | None) -> Transform:
    if normalize is None and len(steps) == 1:
        return steps[0]
    from torchvision.transforms import v2

    if normalize is not None:
        if not (isinstance(normalize, tuple | list) and len(normalize) == 2):
            raise TypeError(
                f"normalize must be a pair, means and deviations, got {brief(normalize)}"
            )
        mean, std = normalize
        steps = [*steps, v2.Normalize(list(mean), list(std))]
    composed: Transform = v2.Compose(steps)
    return composed
