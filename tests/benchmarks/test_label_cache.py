"""Label matrices beside a fingerprint of their annotations."""

from __future__ import annotations

import numpy as np
import pytest

from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.label_cache import LabelTable, cache_folder, cached_table

LABELS = np.array([[1, 0], [np.nan, 1]], dtype=np.float32)


@pytest.fixture
def annotation(tmp_path):
    path = tmp_path / "annotations.txt"
    path.write_text("first")
    return path


@pytest.fixture
def read(picture_files):
    """Counts how often annotations are read."""
    paths = picture_files(2)
    paths[1].unlink()

    def read_table():
        read_table.times += 1
        return LabelTable(ImageFiles(paths), LABELS, ["cat", "dog"])

    read_table.times = 0
    return read_table


def test_a_table_is_read_once_and_comes_back_the_same(annotation, read):
    first, second = (cached_table([annotation], "s", read) for _ in range(2))
    assert read.times == 1
    assert np.array_equal(second.labels, LABELS, equal_nan=True)
    assert second.class_names == ["cat", "dog"]
    assert second.files.problems() == first.files.problems() == {1: "missing"}
    assert second.files.path(0) == first.files.path(0)


def test_other_annotations_or_settings_are_read(annotation, read):
    cached_table([annotation], "s", read)
    annotation.write_text("second, longer")
    cached_table([annotation], "s", read)
    cached_table([annotation], "other settings", read)
    assert read.times == 3


def test_a_damaged_cache_is_read_again(annotation, read, cache_home):
    cached_table([annotation], "s", read)
    assert cache_folder() == cache_home / "rebll_avalanche"
    stored = next(cache_folder().rglob("*.npz"))
    stored.write_bytes(stored.read_bytes()[:100])
    with pytest.warns(UserWarning, match="is damaged; annotations are read again"):
        table = cached_table([annotation], "s", read)
    assert np.array_equal(table.labels, LABELS, equal_nan=True)
    cached_table([annotation], "s", read)
    assert read.times == 2


def test_a_folder_that_cannot_be_written_costs_a_warning(annotation, read, cache_home):
    cache_home.write_text("a file where a folder should be")
    with pytest.warns(UserWarning, match="labels are not cached"):
        table = cached_table([annotation], "s", read)
    assert table.class_names == ["cat", "dog"]
