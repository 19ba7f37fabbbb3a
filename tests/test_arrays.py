"""Arrays on disk: whatever bit flips, the same numbers come back, or the file is called damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rebll_avalanche.arrays import mapped_array, read_arrays
from rebll_avalanche.errors import DamagedError

NUMBERS = np.arange(1000, dtype=np.float32).reshape(100, 10)


def one_bit_changed(path: Path, first_bytes: int):
    """The file with each bit of its head flipped in turn."""
    good = path.read_bytes()
    for place in range(first_bytes):
        for bit in range(8):
            damaged = bytearray(good)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            yield place, bit


def test_no_bit_of_an_archive_changes_its_numbers(tmp_path: Path) -> None:
    """A head that promises fewer numbers than there are would end before the checksum."""
    path = tmp_path / "features.npz"
    np.savez(path, features=NUMBERS)
    refused = 0
    for place in one_bit_changed(path, 300):
        try:
            found = read_arrays(path)
        except DamagedError as error:
            assert "features.npz" in str(error)  # noqa: PT017
            refused += 1
            continue
        assert list(found) == ["features"], place
        assert found["features"].dtype == NUMBERS.dtype
        assert np.array_equal(found["features"], NUMBERS), place
    assert refused > 2000


def test_a_damaged_head_of_a_mapped_array_is_named(tmp_path: Path) -> None:
    path = tmp_path / "images.npy"
    np.save(path, NUMBERS)
    refused = 0
    for _ in one_bit_changed(path, 128):
        try:
            mapped_array(path)
        except DamagedError as error:
            assert "images.npy" in str(error)  # noqa: PT017
            refused += 1
    assert refused > 900


def test_what_cannot_be_read_is_damaged_and_what_is_gone_is_gone(tmp_path: Path) -> None:
    (tmp_path / "words.npz").write_text("no archive")
    np.savez(tmp_path / "objects.npz", objects=np.array([{}], dtype=object))
    for name in ("words.npz", "objects.npz"):
        with pytest.raises(DamagedError, match=name):
            read_arrays(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "gone.npz")
