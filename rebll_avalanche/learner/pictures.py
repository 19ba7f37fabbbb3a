"""Pictures given to a learner: named, decoded on access, identified by content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rebll_avalanche.arguments import check_path
from rebll_avalanche.errors import MissingFileError, PictureError, check_regular_file
from rebll_avalanche.picture_store import thumbnail_of
from rebll_avalanche.pictures import picture_problem, pictures_in, read_picture, to_rgb
from rebll_avalanche.tables import AnnotationTable
from rebll_avalanche.words import brief

Given = str | os.PathLike[str] | Image.Image | np.ndarray


class Pictures(Sequence[Any]):
    """Pictures in RGB, decoded one by one.

    Args:
        names: One per picture.
        given: Paths, or pictures of Pillow's or arrays ``uint8 [height, width, 3]``.

    Attributes:
        thumbnails: Thumbnails of decoded pictures, by row; see :class:`WithThumbnails`.
    """

    pictures = True  # as in the sources of a benchmark

    def __init__(self, names: Sequence[str], given: Sequence[Any]) -> None:
        self.names = tuple(names)
        self.given = given
        self.thumbnails: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self.given)

    def __getitem__(self, index: Any) -> Any:
        return _decoded(self.given[int(index)])

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def chosen(self, rows: Sequence[int]) -> Pictures:
        """Some of them."""
        return Pictures([self.names[row] for row in rows], [self.given[row] for row in rows])

    def keys(self) -> list[int]:
        """A 64-bit number for each, from the bytes of its file or from its pixels."""
        return [_key(self.given[row]) for row in range(len(self))]

    def readable(self) -> list[int]:
        """Which of them can be decoded."""
        return [
            row
            for row in range(len(self))
            if not isinstance(self.given[row], str) or not picture_problem(self.given[row])
        ]


class WithThumbnails(Pictures):
    """Pictures whose thumbnails are made when they are decoded, so that none is decoded twice."""

    def __init__(self, pictures: Pictures) -> None:
        super().__init__(pictures.names, pictures.given)

    def __getitem__(self, index: Any) -> Any:
        picture = super().__getitem__(index)
        if int(index) not in self.thumbnails:
            self.thumbnails[int(index)] = thumbnail_of(picture)
        return picture


def pictures_of(table: AnnotationTable, folder: Path | None) -> Pictures:
    """The pictures of a table, named as the table does."""
    if table.pictures is not None:
        return Pictures(table.images, table.pictures)
    return Pictures([_inside(path, folder) for path in table.images], table.images)


def find_pictures(given: Given | Iterable[Given]) -> Pictures:
    """The pictures of a single one, a list, or a folder.

    Raises:
        MissingFileError: When a file or folder is not there.
        PictureError: When a folder holds no picture, or something is not a picture.
    """
    if isinstance(given, str | os.PathLike):
        check_path("the picture", given)
        path = Path(given).expanduser()
        if path.is_dir():
            files = [str(file) for file in pictures_in(path)]
            if not files:
                raise PictureError(f"there are no pictures in {path}")
            return Pictures(files, files)
        if not path.exists():
            raise MissingFileError(f"there is no picture {path}")
        return Pictures([str(given)], [str(path)])
    if isinstance(given, Pictures):
        return given
    if isinstance(given, Image.Image) or (isinstance(given, np.ndarray) and given.ndim == 3):
        return Pictures(["picture 0"], [given])
    try:
        listed = list(given)
    except TypeError:
        raise TypeError(
            f"pictures must be files, pictures or a folder, got {brief(given)}"
        ) from None
    names = [
        os.fspath(each) if isinstance(each, str | os.PathLike) else f"picture {number}"
        for number, each in enumerate(listed)
    ]
    paths = [
        str(Path(each).expanduser()) if isinstance(each, str | os.PathLike) else each
        for each in listed
    ]
    return Pictures(names, paths)


def is_one(given: Any) -> bool:
    """Whether a single picture was given, and not a list or a folder of them."""
    if isinstance(given, str | os.PathLike):
        check_path("the picture", given)
        return not Path(given).expanduser().is_dir()
    return isinstance(given, Image.Image) or (isinstance(given, np.ndarray) and given.ndim == 3)


def _decoded(given: Any) -> Image.Image:
    if isinstance(given, str | os.PathLike):
        return read_picture(given)
    if isinstance(given, Image.Image):
        return to_rgb(given)
    array = np.asarray(given)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise PictureError(
            "a picture is a file, one of Pillow's, or an array uint8 [height, width, 3]; got "
            f"{array.dtype} {list(array.shape)}"
        )
    return Image.fromarray(array)


def _key(given: Any) -> int:
    if isinstance(given, str | os.PathLike):
        check_regular_file(given, PictureError)
        try:
            content = Path(given).read_bytes()
        except OSError as error:
            raise MissingFileError(f"cannot read {os.fspath(given)}: {error.strerror}") from error
        digest = hashlib.blake2b(content, digest_size=8)
    else:
        picture = _decoded(given)
        digest = hashlib.blake2b(f"{picture.size}".encode(), digest_size=8)
        digest.update(picture.tobytes())
    return int.from_bytes(digest.digest(), "little", signed=True)


def _inside(path: str, folder: Path | None) -> str:
    """A path relative to a folder; outside it, the file name alone, which reveals no folders."""
    if folder is not None:
        relative = os.path.relpath(path, folder)
        if not relative.startswith(os.pardir):
            return Path(relative).as_posix()
    return os.path.basename(path)
