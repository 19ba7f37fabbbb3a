"""Label matrices beside a fingerprint of their annotations."""

from __future__ import annotations

import numpy as np
import pytest

from rebll_avalanche.benchmarks import label_cache
from rebll_avalanche.benchmarks.contents import cache_folder

LABELS = np.array([[1, 0], [np.nan, 1]], dtype=np.float32)


@pytest.fixture
def annotation(tmp_path):
    path = tmp_path / "annotations.txt"
    path.write_text("first")
    return path


@pytest.fixture
def read():
    """Counts how often annotations are read."""

    def read_table():
        read_table.times += 1
        return ["first.jpg", "second.jpg"], LABELS, ["cat", "dog"]

    read_table.times = 0
    return read_table


def cached_table(annotations, settings, read, images="images"):
    return label_cache.cached_table(annotations, settings, images, read)


def test_a_table_is_read_once_and_comes_back_the_same(annotation, read):
    first, second = (cached_table([annotation], "s", read) for _ in range(2))
    assert read.times == 1
    assert np.array_equal(second.labels, LABELS, equal_nan=True)
    assert second.class_names == ["cat", "dog"]
    assert second.names == first.names == ["first.jpg", "second.jpg"]


def test_a_copy_in_another_folder_is_not_read(annotation, read, tmp_path):
    cached_table([annotation], "s", read, tmp_path / "here")
    copy = annotation.rename(tmp_path / "moved.txt")
    table = cached_table([copy], "s", read, tmp_path / "there")
    assert read.times == 1
    assert table.files.path(1) == tmp_path / "there" / "second.jpg"


def test_other_annotations_or_settings_are_read(annotation, read):
    cached_table([annotation], "s", read)
    annotation.write_text("other")
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
    with (
        pytest.warns(UserWarning, match="labels are not cached"),
        pytest.warns(UserWarning, match="checks of files are not cached"),
    ):
        table = cached_table([annotation], "s", read)
    assert table.class_names == ["cat", "dog"]
