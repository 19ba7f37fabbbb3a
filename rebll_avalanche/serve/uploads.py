"""Uploaded pictures: checked before decoding; names are for display only."""

from __future__ import annotations

import shutil
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import File, UploadFile
from PIL import Image

from rebll_avalanche.errors import PictureError
from rebll_avalanche.files import draft_folder, sweep_drafts
from rebll_avalanche.learner.pictures import Pictures
from rebll_avalanche.pictures import decode_picture, picture_size
from rebll_avalanche.serve.guard import Limits, Refused

Uploads = Annotated[list[UploadFile], File(description="Picture files.")]
LONGEST_NAME = 200


def shown_name(given: str | None, number: int) -> str:
    """Name of a picture for answers; never a path.

    >>> [shown_name(name, 3) for name in ("a/b/cat.jpg", "..\\\\..\\\\x.png", "../..", None)]
    ['cat.jpg', 'x.png', 'picture 3', 'picture 3']
    """
    last = (given or "").replace("\\", "/").rsplit("/", 1)[-1]
    shown = "".join(c for c in last if unicodedata.category(c) not in ("Cc", "Cs", "Cf")).strip()
    return shown[:LONGEST_NAME] if shown.strip(".") else f"picture {number}"


def distinct(names: Sequence[str]) -> list[str]:
    """Make names unique by numbering repeated ones.

    >>> distinct(["a.jpg", "a.jpg", "b.jpg"])
    ['a.jpg', '2 a.jpg', 'b.jpg']
    """
    counts: dict[str, int] = {}
    found: list[str] = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        found.append(name if counts[name] == 1 else f"{counts[name]} {name}")
    return found


class Desk:
    """Holds uploaded pictures while they are processed, up to a number of pixels.

    Args:
        limits: Limits of the server.
        path: The learner's file; pictures of waiting lessons are stored beside it.
    """

    def __init__(self, limits: Limits, path: Path) -> None:
        self.limits = limits
        self._path = path
        self._pixels = 0
        self._lock = threading.Lock()
        # Pictures left by a killed server; no other server uses this file.
        sweep_drafts(path.parent, of=path.name)

    async def contents(self, uploads: Sequence[UploadFile]) -> list[tuple[str, bytes]]:
        """Names for display, and contents."""
        if len(uploads) > self.limits.pictures:
            raise Refused(413, f"a request has at most {self.limits.pictures} pictures")
        return [
            (shown_name(each.filename, number), await each.read())
            for number, each in enumerate(uploads)
        ]

    @contextmanager
    def decoded(self, files: Sequence[tuple[str, bytes]]) -> Iterator[list[Image.Image]]:
        """The decoded pictures, while the block lasts.

        Args:
            files: Names and contents.

        Raises:
            PictureError: When one is not a picture or is too large, with its name.
            Refused: When there are too many pixels.
        """
        with self._room(sum(self._pixels_of(name, content) for name, content in files)):
            yield [self._decoded(name, content) for name, content in files]

    @contextmanager
    def one_by_one(self, files: Sequence[tuple[str, bytes]]) -> Iterator[Pictures]:
        """The same pictures named by their numbers, each decoded on access and not kept."""
        with self._room(max(self._pixels_of(name, content) for name, content in files)):
            yield _Numbered(files, self._decoded)

    def keep(self, files: Sequence[tuple[str, bytes]]) -> tuple[Path, list[str]]:
        """Write the pictures into a new folder; return it and their paths.

        Raises:
            PictureError: When one does not decode, with its name.
        """
        with self.one_by_one(files) as pictures:
            for _ in pictures:
                pass
        folder = draft_folder(self._path)
        try:
            paths = [folder / str(number) for number in range(len(files))]
            for path, (_, content) in zip(paths, files, strict=True):
                path.write_bytes(content)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder, [str(path) for path in paths]

    @contextmanager
    def _room(self, pixels: int) -> Iterator[None]:
        most = self.limits.pixels_at_once
        if pixels > most:
            raise Refused(
                413, f"{pixels} pixels in one request, at most {most}; send fewer pictures"
            )
        with self._lock:
            if self._pixels + pixels > most:
                raise Refused(429, "too many pictures at once; try again in a second")
            self._pixels += pixels
        try:
            yield
        finally:
            with self._lock:
                self._pixels -= pixels

    def _pixels_of(self, name: str, content: bytes) -> int:
        """Number of pixels from the file header, checked before decoding."""
        try:
            width, height = picture_size(content)
        except PictureError as error:
            raise PictureError(f"{name}: {error}") from error
        if width * height > self.limits.pixels:
            raise PictureError(
                f"{name}: {width} x {height} pixels, this server takes at most {self.limits.pixels}"
            )
        if max(width, height) > self.limits.elongation * min(width, height):
            raise PictureError(
                f"{name}: {width} x {height} pixels; a picture is at most {self.limits.elongation} "
                "times longer than wide"
            )
        return width * height

    def _decoded(self, name: str, content: bytes) -> Image.Image:
        try:
            return decode_picture(content, self.limits.pixels)
        except PictureError as error:
            raise PictureError(f"{name}: {error}") from error


class _Numbered(Pictures):
    """Pictures named by their numbers, because names may repeat."""

    def __init__(
        self, files: Sequence[tuple[str, bytes]], decode: Callable[[str, bytes], Image.Image]
    ) -> None:
        super().__init__([str(place) for place in range(len(files))], files)
        self._decode = decode

    def __getitem__(self, index: Any) -> Any:
        return self._decode(*self.given[int(index)])
