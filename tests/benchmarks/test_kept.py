"""Pictures of memory are decoded once, whatever is replayed, and look the same as ever."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from rebll_avalanche.benchmarks import kept, multilabel_benchmark
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.kept import KeptPictures
from rebll_avalanche.benchmarks.transforms import (
    evaluation_transform,
    first_size,
    resize,
    to_unit_range,
    training_transform,
)
from rebll_avalanche.memory import Memory


class Counted:
    """A source that notes what is read."""

    pictures = True

    def __init__(self, files):
        self.files, self.read = files, []

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        self.read.append(index)
        return self.files[index]


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{number}.png" for number in range(8)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(path)
    return paths


def test_only_what_is_asked_for_is_kept_and_only_as_long(files):
    counted = Counted(ImageFiles(files))
    source = KeptPictures(counted, side=10)
    source.keep(0, [1, 2])
    source.keep(1, [2, 3])
    for _ in range(3):
        for index in range(4):
            source[index]
    assert [counted.read.count(index) for index in range(4)] == [3, 1, 1, 1]
    assert source.kept_bytes == 3 * 10 * 10 * 3
    assert source[1].shape == (10, 10, 3)
    assert source[0].size == (30, 20)
    source.keep(1, [])
    assert source.kept_bytes == 2 * 10 * 10 * 3
    assert pickle.loads(pickle.dumps(source)).kept_bytes == 0


def test_no_more_than_the_limit(files, monkeypatch):
    monkeypatch.setattr(kept, "LIMIT_BYTES", 700)
    source = KeptPictures(ImageFiles(files), side=10)
    source.keep(0, range(8))
    expected = np.asarray(resize(ImageFiles(files)[5], 10))
    for index in range(8):
        source[index]
    assert source.kept_bytes == 2 * 10 * 10 * 3
    np.testing.assert_array_equal(np.asarray(source[5]), expected)


def test_where_a_transform_begins():
    ours = [training_transform(10), evaluation_transform(10)]
    assert first_size(ours) == 10
    assert first_size([*ours, evaluation_transform(12)]) is None
    assert first_size([*ours, to_unit_range]) is None


def test_replay_decodes_every_image_once_and_changes_no_bit(files, monkeypatch):
    """Pictures and random numbers are those of a benchmark that keeps nothing."""
    labels = torch.eye(2).repeat(4, 1)
    transforms = {
        "train_transform": training_transform(10),
        "eval_transform": evaluation_transform(10),
    }
    drawn, decodes = [], []
    for limit in (0, 10**6):
        monkeypatch.setattr(kept, "LIMIT_BYTES", limit)
        benchmark = multilabel_benchmark((files, labels), (files, labels), "B1-C1", **transforms)
        source = benchmark.train_stream[0]._source
        source.files = counted = Counted(source.files)
        torch.manual_seed(0)
        memory = Memory(6)
        for experience in benchmark.train_stream:
            memory.update(experience)
        batches = [memory.draw(6)[0] for _ in range(5)]
        batches.append(memory.images(torch.arange(6), augment=False))
        drawn.append(torch.stack(batches))
        decodes.append(len(counted.read))
    assert torch.equal(*drawn)
    assert decodes == [36, 6]


def test_an_image_that_leaves_memory_is_let_go(files):
    labels = torch.eye(2).repeat(4, 1)
    options = {"train_transform": evaluation_transform(10), "image_size": 10}
    benchmark = multilabel_benchmark((files, labels), (files, labels), "B1-C1", **options)
    source = benchmark.train_stream[0]._source
    memory = Memory(4)
    torch.manual_seed(0)
    memory.update(benchmark.train_stream[0])
    memory.images(torch.arange(4), augment=True)
    assert source.kept_bytes == 4 * 300
    memory.update(benchmark.train_stream[1])
    stayed = int((memory.experience == 0).sum())
    assert stayed < 4
    assert source.kept_bytes == stayed * 300
    again = Memory(4)
    again.load_state_dict(memory.state_dict())
    again.bind(benchmark.train_stream[1])
    again.images(torch.arange(4), augment=True)
    assert source.kept_bytes == 4 * 300
