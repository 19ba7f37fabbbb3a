"""Checkpoints on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rebll_avalanche.checkpointing.checkpoint import STATE, TENSORS, CheckpointFolder, Moment


def test_moments_sort_and_name_folders() -> None:
    moments = [Moment(0, 2), Moment(0, Moment.END), Moment(1, 1)]
    assert sorted(moments) == moments
    assert [Moment.of(moment.folder) for moment in moments] == moments


def test_round_trip_with_shared_and_strided_tensors(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    base = torch.arange(6.0).reshape(2, 3)
    folder.save(Moment(0, 1), {"a": base, "same": base, "turned": base.t(), "n": 3})
    state = folder.load(Moment(0, 1))
    assert state["n"] == 3
    assert torch.equal(state["same"], base)
    assert torch.equal(state["turned"], base.t())


def test_two_ends_and_two_epochs_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for experience in range(3):
        for epoch in (1, 2, 3):
            folder.save(Moment(experience, epoch), {})
        if experience < 2:
            folder.save(Moment(experience, Moment.END), {})
    assert folder.moments() == [
        Moment(0, Moment.END),
        Moment(1, Moment.END),
        Moment(2, 2),
        Moment(2, 3),
    ]
    folder.keep_newest()
    assert folder.moments() == [Moment(2, 3)]


def test_the_end_before_comes_with_an_epoch(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    assert folder.newest().moment is None
    folder.save(Moment(0, Moment.END), {"value": 1})
    folder.save(Moment(1, 1), {"value": 2})
    point = folder.newest()
    assert (point.moment, point.end, point.epoch) == (Moment(1, 1), {"value": 1}, {"value": 2})


@pytest.mark.parametrize("file", [TENSORS, STATE])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_newest_gives_way_to_the_last_good(
    tmp_path: Path, file: str, damage: str
) -> None:
    folder = CheckpointFolder(tmp_path)
    for epoch in (1, 2):
        folder.save(Moment(0, epoch), {"value": torch.tensor(epoch), "text": "mmmm"})
    path = tmp_path / Moment(0, 2).folder / file
    content = bytearray(path.read_bytes())
    # A byte of the data: the file still reads well, and only its hash tells.
    content[-1 if file == TENSORS else content.index(b"mmmm")] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flipped" else content[:-1])
    with pytest.warns(UserWarning, match="is damaged"):
        point = folder.newest()
    assert point.moment == Moment(0, 1)
    assert point.epoch["value"].item() == 1


def test_nothing_good_left_is_an_error_not_a_fresh_start(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(Moment(0, 1), {})
    (tmp_path / Moment(0, 1).folder / STATE).write_text("{}x")
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.raises(ValueError, match="every checkpoint"),
    ):
        folder.newest()


def test_a_write_that_was_cut_short_is_not_a_checkpoint(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    (tmp_path / ".writing-experience-0000-00001").mkdir()
    assert folder.newest().moment is None
    folder.save(Moment(0, 1), {"value": 5})
    assert folder.newest().epoch == {"value": 5}


def test_older_ones_stay_while_the_newest_is_damaged(tmp_path):
    folder = CheckpointFolder(tmp_path)
    older, newest = Moment(0, Moment.END), Moment(1, Moment.END)
    for moment in (older, newest):
        folder.save(moment, {"n": moment.experience})
    state = tmp_path / newest.folder / STATE
    good = state.read_bytes()
    state.write_bytes(good.replace(b"1", b"2"))
    with pytest.warns(UserWarning, match="older ones are kept"):
        folder.keep_newest()
    assert folder.moments() == [older, newest]
    state.write_bytes(good)
    folder.keep_newest()
    assert folder.moments() == [newest]
