"""What files contain, and how it is remembered."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import time

import pytest

from rebll_avalanche.benchmarks import contents as module
from rebll_avalanche.benchmarks.contents import Content, cache_folder, contents


@pytest.fixture
def paths(tmp_path):
    """Three files, two of them equal."""
    made = [tmp_path / name for name in ("first", "second", "third")]
    for path, text in zip(made, ("one", "two", "one"), strict=True):
        path.write_text(text)
    return [str(path) for path in made]


@pytest.fixture
def settled(monkeypatch):
    """Files count as settled at once, as those of a real data set are."""
    monkeypatch.setattr(module, "SETTLED_NANOSECONDS", -1)


@pytest.fixture
def hashed(monkeypatch):
    """The files that were read."""
    read, original = [], module._hash
    monkeypatch.setattr(module, "_hash", lambda path: (read.append(path), original(path))[1])
    return read


def two_is_wrong(path):
    with open(path) as file:
        return "is two" if file.read() == "two" else ""


def test_equal_bytes_have_one_digest_and_missing_files_are_no_error(paths):
    first, second, third, lost = contents([*paths, "nowhere"])
    assert first == third != second
    assert lost == Content("missing", "missing")
    assert {len(first.digest), len(second.digest)} == {32}


def test_a_second_start_reads_nothing(paths, settled, hashed):
    first = contents(paths, two_is_wrong)
    assert [content.problem for content in first] == ["", "is two", ""]
    assert len(hashed) == 3
    assert contents(paths, lambda path: pytest.fail(f"{path} was checked")) == first
    assert len(hashed) == 3


def test_a_changed_file_is_read_even_if_size_and_time_of_writing_are_the_same(
    paths, settled, hashed
):
    before = contents(paths)
    times = os.stat(paths[0]).st_atime_ns, os.stat(paths[0]).st_mtime_ns
    time.sleep(0.02)  # longer than a tick of the file system's clock
    with open(paths[0], "w") as file:
        file.write("six")
    os.utime(paths[0], ns=times)
    after = contents(paths)
    assert after[0] != before[0]
    assert after[1:] == before[1:]
    assert hashed[3:] == paths[:1]


def test_a_file_written_just_now_is_not_trusted(paths, hashed):
    contents(paths)
    with open(paths[1], "w") as file:
        file.write("six")  # perhaps within the same tick
    assert contents(paths)[1] != contents(paths)[0]
    assert len(hashed) == 9


def test_a_copy_is_read_but_not_checked(paths, settled, tmp_path):
    first = contents(paths, two_is_wrong)
    copies = [shutil.copyfile(path, tmp_path / f"copy-{i}") for i, path in enumerate(paths)]
    copied = contents([str(path) for path in copies], lambda path: pytest.fail("checked again"))
    assert copied == first


def test_a_check_may_come_after_hashing(paths, settled):
    plain = contents(paths)
    assert [content.problem for content in plain] == [""] * 3
    assert contents(paths, two_is_wrong)[1] == Content(plain[1].digest, "is two")


def test_a_stop_loses_no_more_than_a_chunk(paths, settled, hashed, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 1)

    def stop_at_second(path):
        if path == paths[1]:
            raise KeyboardInterrupt
        return ""

    with pytest.raises(KeyboardInterrupt):
        contents(paths, stop_at_second)
    hashed.clear()
    contents(paths, two_is_wrong)
    assert hashed == paths[1:]


def test_a_damaged_memory_is_built_again(paths, settled, hashed):
    first = contents(paths)
    (cache_folder() / "files.sqlite").write_bytes(b"something else" * 100)
    with pytest.warns(UserWarning, match="is damaged .* will be rebuilt"):
        assert contents(paths) == first
    hashed.clear()
    contents(paths)
    assert hashed == []


def test_a_folder_that_cannot_be_written_costs_a_warning(paths, cache_home):
    cache_home.write_text("a file where a folder should be")
    with pytest.warns(UserWarning, match="not cached"):
        assert len(contents(paths)) == 3


def test_a_memory_that_cannot_be_written_costs_a_warning(paths, monkeypatch):
    contents(paths)
    place = cache_folder() / "files.sqlite"
    monkeypatch.setattr(
        module, "_connect", lambda _: sqlite3.connect(f"file:{place}?mode=ro", uri=True)
    )
    monkeypatch.setattr(module, "SETTLED_NANOSECONDS", -1)
    with pytest.warns(UserWarning, match="not cached: attempt to write a readonly"):
        assert len(contents(paths)) == 3


def _read_in_process(paths, barrier, queue):
    barrier.wait()
    queue.put([content.digest for content in contents(paths, two_is_wrong)])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_several_processes_may_remember_at_once(tmp_path, settled, hashed, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 5)
    paths = [str(tmp_path / f"{number}.txt") for number in range(60)]
    for path in paths:
        with open(path, "w") as file:
            file.write(path)
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(3), context.Queue()
    workers = [
        context.Process(target=_read_in_process, args=(paths, barrier, queue)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    answers = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    assert answers[0] == answers[1] == answers[2] == [c.digest for c in contents(paths)]
    assert hashed == [], "what the processes have read is known here"


@pytest.mark.parametrize("damage", ["a text that is none", "another type"])
def test_a_damaged_row_is_read_again(paths, settled, damage):
    """SQLite has no checksums: its own check finds nothing wrong with these."""
    before = contents(paths)
    place = cache_folder() / "files.sqlite"
    if damage == "another type":
        with sqlite3.connect(place) as kept:
            kept.execute("UPDATE files SET digest = x'00ff'")
        kept.close()
    else:
        digest = before[0].digest.encode()
        place.write_bytes(place.read_bytes().replace(digest, b"\xff" + digest[1:]))
    with pytest.warns(UserWarning, match="is damaged"):
        assert contents(paths) == before
    assert contents(paths) == before
