"""The cache of decoded pictures."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rebll_avalanche.benchmarks import cache as module
from rebll_avalanche.benchmarks import multilabel_benchmark, training_transform
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.transforms import resize


@pytest.fixture
def files(picture_files):
    return ImageFiles(picture_files(7))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "images"


def cached_images(files, image_size, folder):
    return module.cached_images(files, files.contents(), image_size, folder)


def entries(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def test_pictures_come_back_as_they_were_decoded(files, folder):
    cache = cached_images(files, 12, folder)
    assert len(cache) == 7
    for index in range(7):
        assert np.array_equal(np.asarray(cache[index]), np.asarray(resize(files[index], 12)))


def test_the_second_time_nothing_is_decoded(files, folder, monkeypatch):
    cached_images(files, 12, folder)
    monkeypatch.setattr(module, "read_picture", lambda path: pytest.fail(f"{path} was decoded"))
    assert len(cached_images(files, 12, folder)) == 7


def test_streams_are_the_same_with_and_without(files, folder):
    split = (files, np.ones((7, 2)))
    options = {"image_size": 12, "train_transform": training_transform(12)}
    streams = []
    for cache in (None, folder):
        benchmark = multilabel_benchmark(split, split, "B1-C1", image_cache=cache, **options)
        torch.manual_seed(0)
        seen = [x for e in (*benchmark.train_stream, *benchmark.test_stream) for x, _ in e.dataset]
        streams.append(torch.stack(seen))
    assert torch.equal(*streams)


def test_the_key_follows_content_size_and_membership(files, folder):
    cached_images(files, 12, folder)
    cached_images(files, 10, folder)
    cached_images(ImageFiles([files.path(index) for index in range(6)]), 12, folder)
    assert len(entries(folder)) == 3
    changed = files.path(2)
    changed.write_bytes(files.path(3).read_bytes())
    cache = cached_images(files, 12, folder)
    assert len(entries(folder)) == 4
    assert np.array_equal(np.asarray(cache[2]), np.asarray(cache[3]))


def test_copies_under_other_names_share_one_cache(files, folder, tmp_path):
    first = cached_images(files, 12, folder)
    copies = [shutil.copyfile(files.path(i), tmp_path / f"copy-{i}.jpg") for i in range(7)]
    assert cached_images(ImageFiles(copies), 12, folder).folder == first.folder


def flip_byte(place):
    with open(place / "images.npy", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 255]))


def cut_off(place):
    os.truncate(place / "images.npy", 200)


def other_shape(place):
    np.save(place / "images.npy", np.zeros((7, 5, 5, 3), dtype=np.uint8))


def lose_checksums(place):
    (place / "checksums.npy").unlink()


@pytest.mark.parametrize("damage", [flip_byte, cut_off, other_shape, lose_checksums])
def test_damage_is_seen_on_open_and_repaired(files, folder, damage):
    good = np.array(cached_images(files, 12, folder).array)
    damage(folder / entries(folder)[0])
    with pytest.warns(UserWarning, match="is damaged .* will be rebuilt"):
        cache = cached_images(files, 12, folder)
    assert np.array_equal(cache.array, good)
    assert len(entries(folder)) == 1, "nothing is left behind"


def test_a_build_that_dies_leaves_nothing_that_looks_complete(files, folder, monkeypatch):
    build = module._build

    def die(*args):
        build(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_build", die)
    with pytest.raises(KeyboardInterrupt):
        cached_images(files, 12, folder)
    assert entries(folder) == []


def test_the_slower_of_two_builders_takes_what_the_faster_has_published(files, folder, monkeypatch):
    build = module._build

    def overtaken(*args):
        build(*args)
        monkeypatch.setattr(module, "_build", build)
        cached_images(files, 12, folder)

    monkeypatch.setattr(module, "_build", overtaken)
    cache = cached_images(files, 12, folder)
    assert len(entries(folder)) == 1
    assert np.array_equal(np.asarray(cache[0]), np.asarray(resize(files[0], 12)))


def _build_in_process(paths, folder, barrier, queue):
    barrier.wait()
    queue.put(int(cached_images(ImageFiles(paths), 12, folder).array.sum()))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_two_processes_may_build_at_once(files, folder):
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(2), context.Queue()
    paths = [files.path(index) for index in range(7)]
    workers = [
        context.Process(target=_build_in_process, args=(paths, folder, barrier, queue))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    sums = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    assert sums == [int(cached_images(files, 12, folder).array.sum())] * 2
    assert len(entries(folder)) == 1


def test_a_copy_carries_the_address_not_the_pictures(files, folder):
    cache = cached_images(files, 64, folder)
    pickled = pickle.dumps(cache)
    assert len(pickled) < 2000
    assert np.array_equal(pickle.loads(pickled).array, cache.array)


def test_a_cache_needs_a_size(files, folder):
    split = (files, np.ones((7, 1)))
    with pytest.raises(ValueError, match="pass image_size="):
        multilabel_benchmark(split, split, "B1-C0", image_cache=folder)


SMALL_DISK = """
mount -t tmpfs -o size=200k tmpfs "$1" || exit 99
exec "$2" -c '
import sys
from rebll_avalanche.benchmarks.cache import cached_images
from rebll_avalanche.benchmarks.images import ImageFiles
files = ImageFiles(sys.argv[2:])
try:
    cached_images(files, files.contents(), 224, sys.argv[1])
except OSError as error:
    print(error)
' "$@"
"""


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(files, tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare, to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    script = SMALL_DISK.replace('"$@"', '"$1" "${@:3}"')
    pictures = [str(files.path(index)) for index in range(len(files))]
    ended = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script, "disk", str(disk), sys.executable, *pictures],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode == 99 or ended.stderr.startswith("unshare"):
        pytest.skip(f"cannot mount a small disk: {ended.stderr}")
    assert ended.returncode == 0, ended.stderr
    assert "1 MB of decoded images do not fit (No space left on device)" in ended.stdout
    assert f"'{disk}'" in ended.stdout


def test_space_is_taken_also_where_the_system_cannot_reserve_it(files, folder, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    cache = cached_images(files, 12, folder)
    assert np.array_equal(cache[3], np.asarray(resize(files[3], 12)))
    place = module._room_for(folder / "large.npy", (9, 500, 500, 3))
    assert (folder / "large.npy").stat().st_blocks * 512 >= place.nbytes
