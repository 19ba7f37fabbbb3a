"""Small encoded pictures stored with a learner or a run: thumbnails, and the pictures of a memory.

They are encoded from pixels, so that no metadata of the original file is kept, such as its location. They are
covered by the hashes of the file that holds them, and refused unless JPEG or PNG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from PIL import Image

from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.words import brief

MEGABYTE = 1_000_000
# Pictures of at most this many pixels are stored without loss.
EXACT_PIXELS = 96 * 96
# Longer side of a thumbnail.
THUMBNAIL_SIDE = 96
_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")


@dataclass(frozen=True)
class Budget:
    """The maximum size of a store, in pictures or in bytes.

    Attributes:
        pictures: Maximum number of pictures, if given.
        num_bytes: Maximum number of bytes, if given.
    """

    pictures: int | None = None
    num_bytes: int | None = None

    @classmethod
    def of(cls, given: int | str | Budget) -> Budget:
        """Parse a number of pictures, or megabytes.

        Raises:
            RebllError: When it is neither a number of pictures nor of megabytes.

        >>> Budget.of(500), Budget.of("16 MB")
        (Budget(pictures=500, num_bytes=None), Budget(pictures=None, num_bytes=16000000))
        """
        if isinstance(given, Budget):
            return given
        text = str(given).strip()
        if re.fullmatch(r"\d+", text):
            return cls(pictures=int(text))
        if found := re.fullmatch(r"(\d+(?:\.\d+)?) ?MB", text, re.IGNORECASE):
            return cls(num_bytes=round(float(found[1]) * MEGABYTE))
        raise RebllError(
            f"a budget is a number of pictures (500) or megabytes ('16 MB'), got {brief(given)}"
        )

    def __str__(self) -> str:
        """The inverse of :meth:`of`."""
        return str(self.pictures) if self.num_bytes is None else f"{self.num_bytes / MEGABYTE:g} MB"

    @property
    def is_nothing(self) -> bool:
        """Whether it allows no picture."""
        return 0 in (self.pictures, self.num_bytes)

    def allows(self, pictures: int, num_bytes: int) -> bool:
        """Whether a number of pictures with a total number of bytes is within the budget."""
        most_pictures = pictures if self.pictures is None else self.pictures
        most_bytes = num_bytes if self.num_bytes is None else self.num_bytes
        return pictures <= most_pictures and num_bytes <= most_bytes


@dataclass(frozen=True, eq=False)
class PictureStore:
    """Encoded pictures by key; a change makes another store.

    Attributes:
        budget: Maximum size. Keys are hashes, and pictures with the smallest keys are kept: a random sample
            of all pictures that does not depend on their order.
        pictures: JPEG or PNG by key.
    """

    budget: Budget = Budget()
    pictures: Mapping[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pictures)

    def get(self, key: int) -> bytes | None:
        """The encoded picture, or None."""
        return self.pictures.get(key)

    def with_pictures(self, added: Mapping[int, bytes]) -> PictureStore:
        """A store with further pictures, within the budget."""
        kept: dict[int, bytes] = {}
        used = 0
        for key, content in sorted({**self.pictures, **added}.items()):
            used += len(content)
            if not self.budget.allows(len(kept) + 1, used):
                break
            kept[key] = content
        return replace(self, pictures=kept)

    def only(self, keys: Collection[int]) -> PictureStore:
        """A store with only these pictures."""
        wanted = set(keys)
        kept = {key: content for key, content in self.pictures.items() if key in wanted}
        return replace(self, pictures=kept)

    def to_dict(self) -> dict[str, Any]:
        """Plain values and three tensors."""
        together = np.frombuffer(b"".join(self.pictures.values()), np.uint8)
        return {
            "budget": asdict(self.budget),
            "keys": torch.tensor(list(self.pictures), dtype=torch.int64),
            "sizes": torch.tensor([len(each) for each in self.pictures.values()]).long(),
            "bytes": torch.from_numpy(together.copy()),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PictureStore:
        """The inverse of :meth:`to_dict`.

        Raises:
            DamagedError: When sizes do not match, or something is not a picture.
        """
        keys, sizes = values["keys"].tolist(), values["sizes"].tolist()
        together = values["bytes"].numpy().tobytes()
        ends = np.cumsum([0, *sizes]).tolist()
        numbered = values["keys"].dtype == torch.int64 and len(set(keys)) == len(sizes)
        if not numbered or min(sizes, default=1) < 1 or ends[-1] != len(together):
            raise DamagedError("its pictures do not fit their index")
        parts = [together[start:end] for start, end in pairwise(ends)]
        if not all(part.startswith(_STARTS) for part in parts):
            raise DamagedError("its stored pictures are not readable")
        return cls(Budget(**values["budget"]), dict(zip(keys, parts, strict=True)))


def thumbnail_of(picture: Image.Image, side: int = THUMBNAIL_SIDE) -> bytes:
    """A small JPEG.

    Args:
        picture: In RGB.
        side: Longer side.
    """
    small = picture if max(picture.size) <= side else _scaled(picture, side)
    return encoded(small, "JPEG", quality=80)


def training_picture(picture: Image.Image) -> bytes:
    """Encode a picture, scaled to the training size, for a memory.

    Without loss up to :data:`EXACT_PIXELS`, else as a JPEG of high quality.
    """
    if picture.width * picture.height <= EXACT_PIXELS:
        return encoded(picture, "PNG")
    limit = most_bytes(picture.width * picture.height)
    for quality in (92, 85, 75, 60, 40):
        content = encoded(picture, "JPEG", quality=quality, subsampling=0)
        if len(content) <= limit:
            break
    return content


def most_bytes(pixels: int) -> int:
    """An upper bound for :func:`training_picture`, from which a budget in megabytes follows."""
    return 3 * pixels + 4096 if pixels <= EXACT_PIXELS else pixels


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of a picture file without any metadata."""
    stream = io.BytesIO()
    plain = picture.copy()
    plain.info = {}
    plain.save(stream, kind, **options)
    return stream.getvalue()


def _scaled(picture: Image.Image, side: int) -> Image.Image:
    ratio = side / max(picture.size)
    size = [max(1, round(length * ratio)) for length in picture.size]
    # First reduced by whole pixels: four times as fast, without a visible difference at this size.
    return picture.resize((size[0], size[1]), Image.Resampling.BICUBIC, reducing_gap=2.0)
