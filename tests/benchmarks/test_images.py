"""Sources of inputs and the check of files before any epoch."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.benchmarks.images import ImageArray, ImageFiles, Inputs, Rows, as_source
from rebll_avalanche.pictures import read_picture


def test_what_a_user_passes_decides_the_source(picture_files):
    paths = picture_files(2)
    pictures = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    for given, kind in (
        (paths, ImageFiles),
        ([str(path) for path in paths], ImageFiles),
        (pictures, ImageArray),
        (torch.from_numpy(pictures), ImageArray),
        (pictures.astype(np.float32), Rows),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), Rows),
        (torch.zeros(2, 7), Rows),
        ([torch.zeros(3), torch.ones(3)], Inputs),
    ):
        source = as_source(given)
        assert isinstance(source, kind)
        assert len(source) == 2
        assert as_source(source) is source


def test_files_are_read_as_rgb_whatever_they_are(tmp_path):
    for mode in ("L", "RGB", "RGBA", "P", "CMYK"):
        path = tmp_path / f"{mode}.{'jpg' if mode == 'CMYK' else 'png'}"
        Image.new(mode, (6, 5)).save(path)
        picture = ImageFiles([path])[0]
        assert (picture.mode, picture.size) == ("RGB", (6, 5))


def test_files_survive_the_way_to_a_worker(picture_files):
    paths = picture_files(3)
    again = pickle.loads(pickle.dumps(ImageFiles(paths)))
    assert [again.path(index) for index in range(3)] == paths


def damage(paths):
    """Break all files but the first, each in its own way; returns how many are broken."""
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[: len(whole) // 2])
    paths[2].write_bytes(b"")
    paths[3].write_text("<html>not found</html>")
    paths[4].unlink()
    return 4


def problems(paths):
    found = ImageFiles(paths).contents()
    return {index: content.problem for index, content in enumerate(found) if content.problem}


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp"])
def test_broken_files_are_found(picture_files, suffix):
    paths = picture_files(6, suffix=suffix)
    broken = damage(paths)
    found = problems(paths)
    assert list(found) == list(range(1, broken + 1))
    assert (found[2], found[3], found[4]) == ("empty", "not a picture", "missing")


def test_every_file_that_would_not_decode_is_found_wherever_it_is_broken(picture_files):
    whole = picture_files(1, size=(90, 70))[0].read_bytes()
    rng = np.random.default_rng(0)
    paths = picture_files(120)
    for path in paths:
        broken = bytearray(whole)
        start = int(rng.integers(2, len(whole) - 60))
        broken[start : start + 40] = rng.bytes(40)
        path.write_bytes(broken)
    expected = []
    for index, path in enumerate(paths):
        try:
            read_picture(path)
        except ValueError:
            expected.append(index)
    assert list(problems(paths)) == expected
    assert 20 < len(expected) < 120, "some hit only the colour of a few blocks"


def test_a_file_with_something_after_its_end_is_still_a_picture(picture_files):
    path = picture_files(1)[0]
    path.write_bytes(path.read_bytes() + os.urandom(200))
    assert problems([path]) == {}


def test_a_picture_that_breaks_later_is_named():
    with pytest.raises(ValueError, match=r"there is no file nowhere\.jpg"):
        ImageFiles(["nowhere.jpg"])[0]


@pytest.mark.parametrize("cached", [False, True])
def test_broken_files_stop_the_benchmark_or_are_counted_and_skipped(
    picture_files, tmp_path, cached
):
    train, labels = picture_files(8), np.ones((8, 2))
    options = {"image_size": 8, "image_cache": tmp_path / "images" if cached else None}
    split = (list(train), labels)
    damage(train)
    with pytest.raises(ValueError, match=r"4 of 8 train images cannot be used: .*001\.jpg"):
        multilabel_benchmark(split, split, "B1-C1", **options)
    with pytest.warns(UserWarning, match="4 of 8 .* images cannot be used.*skipped"):
        benchmark = multilabel_benchmark(split, split, "B1-C1", on_error="skip", **options)
    for experience in (*benchmark.train_stream, *benchmark.test_stream):
        assert experience.image_indices.tolist() == [0, 5, 6, 7]
        assert [x.shape for x, _ in experience.dataset] == [(3, 8, 8)] * 4


def test_missing_files_are_file_not_found(picture_files):
    paths = picture_files(3)
    paths[1].unlink()
    split = (paths, np.ones((3, 1)))
    with pytest.raises(FileNotFoundError, match=r"1 of 3 train images .*001\.jpg \(missing\)"):
        multilabel_benchmark(split, split, "B1-C0")


def test_labels_that_are_no_numbers_are_refused(picture_files):
    paths = picture_files(2)
    for labels in (None, [["cat"], ["dog"]], [[1], [0, 1]], object()):
        with pytest.raises(ValueError, match="the labels of train are not a matrix of numbers"):
            multilabel_benchmark((paths, labels), (paths, labels), "B1-C0")
