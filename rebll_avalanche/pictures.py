"""Read images: upright, in RGB, eight bits per channel.

Training, evaluation, caches and prediction all use this module, so that a model always gets images read
in the same way.
"""

from __future__ import annotations

import io
import os
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from rebll_avalanche.errors import MissingFileError, PictureError, check_regular_file

# Part of every cache key derived from images: increment it when a code change alters them.
VERSION = 4
# A small file can expand to any amount of memory; no photograph is larger than this.
MAX_PIXELS = 178_956_970
# Of a larger JPEG, an eighth, a quarter or half of the pixels are decoded, so that both sides have at least
# so many: more than a network looks at, in half the time for a photograph of 12 megapixels. Scaled to at most
# half of this, such a picture differs by two grey levels at most from one that was decoded whole.
ENOUGH_PIXELS = 1024
# Formats of pictures. Others that Pillow knows start programs (EPS), hold no pictures, or are decoded before
# their size is known (ICO).
FORMATS = (
    "AVIF", "BMP", "DDS", "DIB", "GIF", "JPEG", "JPEG2000", "PCX", "PNG", "PPM", "QOI", "SGI",
    "TGA", "TIFF", "WEBP",
)  # fmt: skip
SUFFIXES = frozenset([
    ".avif", ".bmp", ".dib", ".gif", ".jp2", ".jpeg", ".jpg", ".pcx", ".pgm", ".png", ".ppm", ".qoi",
    ".sgi", ".tga", ".tif", ".tiff", ".webp",
])  # fmt: skip
_ORIENTATION = 0x0112
_BITS_PER_SAMPLE = 258
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def pictures_in(folder: Path) -> list[Path]:
    """The picture files in a folder, at any depth, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def read_picture(path: str | os.PathLike[str]) -> Image.Image:
    """Read an image file, upright and in RGB.

    Raises:
        PictureError: When it cannot be decoded, with its path.
        MissingFileError: When it does not exist.
    """
    check_regular_file(path, PictureError)
    try:
        return _read(path)
    # Decoders raise many kinds of errors: struct.error, KeyError, NotImplementedError ...
    except Exception as error:
        raise PictureError(f"cannot read {os.fspath(path)}: {_why(error)}") from error


def decode_picture(content: bytes, most_pixels: int = MAX_PIXELS) -> Image.Image:
    """Decode the content of a picture file.

    Args:
        content: Bytes of the file.
        most_pixels: Larger pictures are refused before they are decoded.

    Raises:
        PictureError: When it is not a picture that can be decoded.
    """
    try:
        return _read(io.BytesIO(content), most_pixels=most_pixels)
    except Exception as error:
        raise PictureError(_why(error)) from error


def picture_size(content: bytes) -> tuple[int, int]:
    """Width and height from the header of a picture file, without decoding it.

    Raises:
        PictureError: When it is not a picture.
    """
    try:
        with Image.open(io.BytesIO(content), formats=_formats()) as image:
            return image.size
    except Exception as error:
        raise PictureError(_why(error)) from error


def picture_problem(path: str) -> str:
    """Why an image file does not decode; empty if it does.

    Only decoding detects an interrupted download, a gap filled with zeros or a flipped bit in a table:
    their headers look valid. Decoding a JPEG at an eighth of its size takes half the time or less and
    still reads all coded data.
    """
    try:
        check_regular_file(path, PictureError)
        if not os.path.getsize(path):
            return "empty"
        _read(path, draft=True)
    except MemoryError:  # a property of the machine, not of the file
        raise
    except MissingFileError:
        return "missing"
    except Exception as error:
        return _why(error)
    return ""


def to_rgb(picture: Image.Image) -> Image.Image:
    """Convert a Pillow image to upright RGB; unchanged if it already is.

    Transparent areas become white. Images of more than eight bits are scaled by the range of their
    format, not clipped at 255.
    """
    picture.load()
    turn = _UPRIGHT.get(_orientation(picture))
    if picture.mode == "RGB" and turn is None:
        return picture
    rgb = _eight_bits(picture)
    if rgb.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in rgb.info:
        rgb = _on_white(rgb)
    if rgb.mode != "RGB":
        rgb = rgb.convert("RGB")
    if turn is not None:
        rgb = rgb.transpose(turn)
    if rgb is not picture:
        rgb.info = {}  # otherwise the orientation would be applied twice
    return rgb


def _read(
    file: str | os.PathLike[str] | io.BytesIO, draft: bool = False, most_pixels: int = MAX_PIXELS
) -> Image.Image:
    with Image.open(file, formats=_formats()) as image:
        width, height = image.size
        if width * height > most_pixels:
            raise PictureError(f"{width} x {height} pixels, more than {most_pixels}")
        if min(image.size) < 1:
            raise PictureError("it has no pixels")
        side = 1 if draft else ENOUGH_PIXELS
        image.draft("RGB", (side, side))  # does nothing unless it is a JPEG
        return to_rgb(image)


@cache
def _formats() -> list[str]:
    Image.init()  # an older Pillow has fewer formats and refuses unknown names
    return [name for name in FORMATS if name in Image.OPEN]


def _orientation(picture: Image.Image) -> int:
    """EXIF orientation of an image; 1, upright, if there is none."""
    if not {"exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif"} & picture.info.keys():
        return 1
    try:
        return int(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged metadata is no reason to refuse an image
        return 1


def _eight_bits(picture: Image.Image) -> Image.Image:
    if picture.mode not in ("I", "F") and not picture.mode.startswith("I;16"):
        return picture
    pixels = np.nan_to_num(np.asarray(picture).astype(np.float64))
    scaled = pixels * (255 / _range(picture, pixels))
    return Image.fromarray(scaled.round().clip(0, 255).astype(np.uint8))


def _range(picture: Image.Image, pixels: np.ndarray) -> float:
    """The value of white."""
    if getattr(picture, "tag_v2", {}).get(_BITS_PER_SAMPLE) == (12,):
        return 2**12 - 1
    if picture.mode.startswith("I;16"):
        return 2**16 - 1
    largest = float(pixels.max())
    if picture.mode == "F":
        # Floating point has no fixed range: usually 0 to 1, or the range of an integer format.
        return next((white for white in (1.0, 255.0, 65535.0) if largest <= white), largest)
    return max(largest, 2**16 - 1)


def _on_white(picture: Image.Image) -> Image.Image:
    picture = picture.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture)


def _why(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not a picture"  # its own text names the path, but copies share this result
    text = str(error)
    return text if isinstance(error, OSError | SyntaxError | ValueError) and text else repr(error)
