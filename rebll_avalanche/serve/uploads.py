"""Pictures that somebody has sent: checked before they cost anything, named for people only."""

from __future__ import annotations

import shutil
import tempfile
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from rebll_avalanche.errors import PictureError
from rebll_avalanche.pictures import decode_picture, picture_size
from rebll_avalanche.serve.guard import Limits, Refused

LONGEST_NAME = 200


def shown_name(given: str | None, number: int) -> str:
    """What a picture is called in answers; never a path of anything.

    >>> [shown_name(name, 3) for name in ("a/b/cat.jpg", "..\\\\..\\\\x.png", "../..", None)]
    ['cat.jpg', 'x.png', 'picture 3', 'picture 3']
    """
    last = (given or "").replace("\\", "/").rsplit("/", 1)[-1]
    shown = "".join(c for c in last if unicodedata.category(c) not in ("Cc", "Cs", "Cf")).strip()
    return shown[:LONGEST_NAME] if shown.strip(".") else f"picture {number}"


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, told apart where two are alike.

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
    """Where pictures lie while they are looked at, with room for so many pixels.

    Args:
        limits: Of the server.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pixels = 0
        self._lock = threading.Lock()

    @contextmanager
    def decoded(self, files: Sequence[tuple[str, bytes]]) -> Iterator[list[Image.Image]]:
        """The pictures of files, for as long as the block lasts.

        Args:
            files: Names and contents.

        Raises:
            PictureError: When one is no picture, or is too large, with its name.
            Refused: When there is no room.
        """
        pixels = sum(self._checked(name, content) for name, content in files)
        with self._lock:
            if self._pixels and self._pixels + pixels > self._limits.pixels_at_once:
                raise Refused(429, "too many pictures at once; try again in a second")
            self._pixels += pixels
        try:
            yield [self._decoded(name, content) for name, content in files]
        finally:
            with self._lock:
                self._pixels -= pixels

    def keep(self, files: Sequence[tuple[str, bytes]]) -> tuple[Path, list[str]]:
        """Pictures in a folder that is made for them, under numbers, and their paths.

        Raises:
            PictureError: When one does not decode, with its name.
        """
        for name, content in files:
            self._checked(name, content)
            self._decoded(name, content)
        folder = Path(tempfile.mkdtemp(prefix="rebll-lesson-"))
        try:
            paths = [folder / str(number) for number in range(len(files))]
            for path, (_, content) in zip(paths, files, strict=True):
                path.write_bytes(content)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder, [str(path) for path in paths]

    def _checked(self, name: str, content: bytes) -> int:
        """How many pixels it has."""
        try:
            width, height = picture_size(content)
        except PictureError as error:
            raise PictureError(f"{name}: {error}") from error
        if width * height > self._limits.pixels:
            raise PictureError(
                f"{name}: {width} x {height} pixels, this server takes at most {self._limits.pixels}"
            )
        if max(width, height) > self._limits.elongation * min(width, height):
            raise PictureError(
                f"{name}: {width} x {height} pixels; a picture is at most {self._limits.elongation} "
                "times longer than wide"
            )
        return width * height

    def _decoded(self, name: str, content: bytes) -> Image.Image:
        try:
            return decode_picture(content, self._limits.pixels)
        except PictureError as error:
            raise PictureError(f"{name}: {error}") from error
