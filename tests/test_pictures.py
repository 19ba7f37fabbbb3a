"""Reading pictures, whatever a camera, a scanner or a broken download has made of them."""

from __future__ import annotations

import os
import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from rebll_avalanche import multilabel_benchmark
from rebll_avalanche.benchmarks.transforms import resize
from rebll_avalanche.errors import MissingFileError, PictureError, RebllError
from rebll_avalanche.inference.predictor import load_run
from rebll_avalanche.pictures import picture_problem, read_picture, to_rgb


@pytest.fixture
def photo():
    """A picture without any symmetry."""
    coarse = np.random.default_rng(0).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((40, 30), Image.Resampling.NEAREST)


def with_orientation(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif", "avif"])
@pytest.mark.parametrize("number", range(1, 9))
def test_pictures_stand_upright(photo, tmp_path, suffix, number):
    path = tmp_path / f"photo.{suffix}"
    photo.save(path, exif=with_orientation(number))
    with Image.open(path) as image:
        expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    found = read_picture(path)
    assert np.array_equal(np.asarray(found), expected)
    assert found.size == ((30, 40) if number > 4 else (40, 30))
    assert to_rgb(found) is found, "it is not turned a second time"


def test_of_a_large_photograph_fewer_pixels_are_decoded(photo, tmp_path):
    """The square that a network gets differs by at most two grey levels."""
    path, noise = tmp_path / "large.jpg", np.random.default_rng(0).normal(0, 6, (2112, 2816, 1))
    pixels = np.asarray(photo.resize((2816, 2112), Image.Resampling.BICUBIC)) + noise
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=92)
    found = read_picture(path)
    assert found.size == (1408, 1056)
    with Image.open(path) as whole:
        for side in (96, 224, 448):
            expected = np.asarray(resize(whole.convert("RGB"), side)).astype(int)
            assert abs(np.asarray(resize(found, side)) - expected).max() <= 2
    photo.resize((2816, 1023)).save(path)
    assert read_picture(path).size == (2816, 1023)


def test_sixteen_bits_are_scaled_and_not_cut_off(tmp_path):
    ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64)
    expected = np.repeat((ramp.astype(np.uint16) / 257).round().astype(np.uint8)[..., None], 3, 2)
    for suffix in ("png", "tif", "pgm"):
        path = tmp_path / f"ramp.{suffix}"
        Image.fromarray(ramp.astype(np.uint16)).save(path)
        assert np.array_equal(np.asarray(read_picture(path)), expected), suffix
    Image.fromarray((ramp / 65535).astype(np.float32)).save(tmp_path / "float.tif")
    found = np.asarray(read_picture(tmp_path / "float.tif")).astype(int)
    assert abs(found - expected).max() <= 1
    Image.fromarray(ramp.astype(np.int32)).save(tmp_path / "int.tif")
    assert np.array_equal(np.asarray(read_picture(tmp_path / "int.tif")), expected)


def test_what_is_transparent_becomes_white(photo, tmp_path):
    alpha = Image.new("L", photo.size, 255)
    alpha.paste(0, (0, 0, 20, 30))
    alpha.paste(128, (20, 0, 40, 15))
    colours = np.asarray(photo).astype(float)
    share = np.asarray(alpha)[..., None] / 255
    expected = colours * share + 255 * (1 - share)
    clear = photo.copy()
    clear.putalpha(alpha)
    clear.save(tmp_path / "alpha.png")
    assert abs(np.asarray(read_picture(tmp_path / "alpha.png")) - expected).max() <= 1
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((0, 0), 0)
    palette.save(tmp_path / "palette.png", transparency=0)
    found = np.asarray(read_picture(tmp_path / "palette.png"))
    assert found[0, 0].tolist() == [255, 255, 255]
    assert found[3, 3].tolist() == [40, 50, 60]


def test_other_ways_to_hold_colours_look_the_same(photo, tmp_path):
    grey = photo.convert("L")
    for name, form in (
        ("grey.png", grey),
        ("la.png", grey.convert("LA")),
        ("p.png", grey.convert("P")),
    ):
        form.save(tmp_path / name)
        assert np.array_equal(
            np.asarray(read_picture(tmp_path / name)), np.asarray(grey.convert("RGB"))
        ), name
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "cmyk.jpg", quality=95)
    red = np.asarray(read_picture(tmp_path / "cmyk.jpg")).reshape(-1, 3).mean(axis=0)
    assert red[0] > 240 > 20 > red[1:].max()


def test_training_evaluation_cache_and_prediction_see_the_same(photo, tmp_path, trained_run):
    path = tmp_path / "side.jpg"
    photo.save(path, exif=with_orientation(6), quality=95)
    upright = tmp_path / "upright.png"
    read_picture(path).save(upright)
    deep = tmp_path / "deep.png"
    Image.fromarray(np.asarray(photo.convert("L")).astype(np.uint16) * 257).save(deep)
    plain = tmp_path / "plain.png"
    photo.convert("L").save(plain)
    trained = load_run(trained_run)
    for odd, even in ((path, upright), (deep, plain)):
        seen = []
        for cache in (None, tmp_path / "cache"):
            split = ([odd, even], np.ones((2, 1)))
            streams = multilabel_benchmark(split, split, "B1-C0", image_size=16, image_cache=cache)
            for experience in (streams.train_stream[0], streams.test_stream[0]):
                seen += [x for x, _ in experience.dataset]
        assert all(torch.equal(x, seen[0]) for x in seen)
        with Image.open(odd) as opened:
            answers = trained.predict([opened, read_picture(odd), read_picture(even)])
        assert answers[0] == answers[1]
        assert answers[1] == pytest.approx(answers[2], abs=1e-6)


def bomb():
    """A PNG of a few bytes that claims 60000 x 60000 pixels."""

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def test_what_is_no_picture_is_refused_by_name(tmp_path):
    for name, content in (
        ("bomb.png", bomb()),
        ("text.jpg", b"<html>"),
        ("empty.png", b""),
        ("script.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"),
        ("cut.avif", b"\0\0\0\x20ftypavif\0\0\0\0avifmif1miafMA1B" + b"\0" * 40),
        ("cut.dds", b"DDS " + struct.pack("<I", 124) + b"\0" * 30),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(PictureError, match=rf"cannot read .*{name}: ."):
            read_picture(path)
        assert picture_problem(str(path))
    with pytest.raises(PictureError, match="is a folder, not a file"):
        read_picture(tmp_path)
    with pytest.raises(MissingFileError, match=r"there is no file .*gone\.jpg"):
        read_picture(tmp_path / "gone.jpg")
    with pytest.raises(PictureError, match="null"):
        read_picture("a\0b.jpg")


def test_a_pipe_does_not_hang(tmp_path):
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    with pytest.raises(PictureError, match=r"pipe\.jpg: it is a pipe, socket or device"):
        read_picture(pipe)
    split = ([pipe], np.ones((1, 1)))
    with pytest.raises(ValueError, match=r"pipe\.jpg.*a pipe, socket or device"):
        multilabel_benchmark(split, split, "B1-C0", image_size=8)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Small files of many formats."""
    folder = tmp_path_factory.mktemp("formats")
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    files = {}
    for suffix in [
        "jpg",
        "png",
        "gif",
        "bmp",
        "tif",
        "webp",
        "avif",
        "dds",
        "ppm",
        "tga",
        "ico",
        "qoi",
        "jp2",
        "pcx",
        "sgi",
    ]:
        path = folder / f"whole.{suffix}"
        options = {"exif": with_orientation(6)} if suffix in ("jpg", "png", "webp", "tif") else {}
        try:
            picture.save(path, **options)
        except (KeyError, OSError, ValueError):  # an older Pillow writes fewer
            continue
        files[suffix] = path.read_bytes()
    assert len(files) > 8
    return files


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_damaged_bytes_never_raise_anything_else(whole, data, tmp_path_factory):
    suffix = data.draw(st.sampled_from(sorted(whole)))
    content = bytearray(whole[suffix])
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(1, len(content)))]
    path = tmp_path_factory.getbasetemp() / f"mutant.{suffix}"
    path.write_bytes(content)
    try:
        picture = read_picture(path)
        assert picture.mode == "RGB"
    except RebllError as error:
        assert str(path) in str(error)  # noqa: PT017
