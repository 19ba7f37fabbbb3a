"""Where every image lands."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from rebll_avalanche.benchmarks import MultiLabelTargets, multilabel_benchmark
from rebll_avalanche.labels import UNKNOWN
from rebll_avalanche.scenario import Scenario, class_range

NAMES = ["cat", "dog", "bird", "car"]
# Columns as the data set has them; learned alphabetically: bird, car | cat, dog.
TRAIN = np.array(
    [
        #  cat dog bird car
        [1, 0, 0, 0],  # 0: second experience
        [0, 0, 1, 0],  # 1: first
        [1, 1, 0, 1],  # 2: both
        [0, 0, 0, 0],  # 3: none
        [0, 1, 1, 0],  # 4: both
        [0, 0, 1, 1],  # 5: first
    ]
)
TEST = np.array([[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0]])


def build(**options):
    inputs = [np.arange(len(part), dtype=np.float32) for part in (TRAIN, TEST)]
    settings = {"class_names": NAMES, "scenario": "B2-C2", **options}
    return multilabel_benchmark((inputs[0], TRAIN), (inputs[1], TEST), **settings)


def samples(experience):
    return [int(x) for x, _ in experience.dataset]


def rows(tensor):
    return [["?" if math.isnan(v) else int(v) for v in row] for row in tensor.tolist()]


def test_overlapping_experiences_use_an_image_wherever_it_has_a_class():
    benchmark = build()
    assert benchmark.class_names == ["bird", "car", "cat", "dog"]
    assert benchmark.scenario == Scenario((2, 2), (2, 3, 0, 1), "B2-C2")
    assert benchmark.num_classes == 4
    first, second = benchmark.train_stream
    assert samples(first) == [1, 2, 4, 5]
    assert rows(first.dataset.targets.data) == [
        [1, 0, "?", "?"],
        [0, 1, "?", "?"],
        [1, 0, "?", "?"],
        [1, 1, "?", "?"],
    ]
    assert samples(second) == [0, 2, 4]
    assert rows(second.dataset.targets.data) == [
        ["?", "?", 1, 0],
        ["?", "?", 1, 1],
        ["?", "?", 0, 1],
    ]


def test_disjoint_experiences_use_an_image_once_when_its_last_class_arrives():
    first, second = build(mode="disjoint").train_stream
    assert samples(first) == [1, 5]
    assert samples(second) == [0, 2, 4]
    assert rows(second.dataset.targets.data)[1] == ["?", "?", 1, 1]


def test_the_test_stream_grows_and_is_annotated_for_all_seen_classes():
    first, second = build().test_stream
    assert samples(first) == [1, 3]
    assert rows(first.dataset.targets.data) == [[0, 1, "?", "?"], [1, 0, "?", "?"]]
    assert samples(second) == [0, 1, 3]
    assert rows(second.dataset.targets.data) == [[0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 1, 0]]


def test_missing_labels_may_be_counted_as_absent():
    benchmark = build(missing="negative")
    assert rows(benchmark.train_stream[1].dataset.targets.data)[1] == [0, 0, 1, 1]
    assert rows(benchmark.test_stream[0].dataset.targets.data)[1] == [1, 0, 0, 0]


def test_the_hidden_truth_stays_aligned_with_the_data_set():
    for stream in (build().train_stream, build(missing="negative").train_stream):
        for experience in stream:
            known = TRAIN[:, [2, 3, 0, 1]][samples(experience)]
            assert experience.full_targets.tolist() == known.tolist()
            assert experience.image_indices.tolist() == samples(experience)


def test_labels_that_nobody_knows_stay_unknown_and_bring_no_image_in():
    labels = torch.tensor([[1.0, UNKNOWN], [UNKNOWN, 1.0], [UNKNOWN, 0.0]])
    split = (torch.arange(3.0), labels)
    benchmark = multilabel_benchmark(split, split, "B1-C1")
    assert [samples(e) for e in benchmark.train_stream] == [[0], [1]]
    assert rows(benchmark.test_stream[1].dataset.targets.data) == [[1, "?"], ["?", 1]]
    zeros = multilabel_benchmark(split, split, "B1-C1", missing="negative")
    assert rows(zeros.test_stream[1].dataset.targets.data) == [[1, 0], [0, 1]]


def test_items_and_targets_agree():
    for experience in build().train_stream:
        items = torch.stack([y for _, y in experience.dataset])
        assert torch.equal(items.isnan(), experience.dataset.targets.data.isnan())
        assert rows(items) == rows(experience.dataset.targets.data)
        assert isinstance(experience.dataset.targets, MultiLabelTargets)
        assert items.dtype == torch.float32


def test_experiences_carry_the_class_timeline_through_copies_and_slices():
    benchmark = build()
    for stream in (benchmark.train_stream, benchmark.test_stream):
        for again in (stream, stream[1:], [stream[1].train()], [stream[1].eval()]):
            experience = list(again)[-1]
            assert experience.classes_in_this_experience == {2, 3}
            assert experience.previous_classes == {0, 1}
            assert experience.classes_seen_so_far == {0, 1, 2, 3}
            assert experience.future_classes == set()
            assert class_range(experience) == (2, 4)
    assert benchmark.train_stream[0].future_classes == {2, 3}
    assert benchmark.train_stream.benchmark is benchmark


@pytest.mark.parametrize("size", [0.34, 2])
def test_validation_images_are_cut_out_of_the_training_images_by_seed(size):
    benchmark = build(validation_size=size, seed=4)
    held_out = {i for e in benchmark.valid_stream for i in samples(e)}
    trained = {i for e in benchmark.train_stream for i in samples(e)}
    assert held_out
    assert not held_out & trained
    assert held_out | trained | {3} == set(range(6))
    last = benchmark.valid_stream[1]
    assert not last.dataset.targets.data.isnan().any()
    assert samples(build(validation_size=size, seed=4).valid_stream[1]) == samples(last)
    assert "valid" not in build().streams


def test_transforms_belong_to_train_and_eval_and_switch_with_avalanche():
    benchmark = build(train_transform=lambda x: x + 100, eval_transform=lambda x: x + 200)
    experience = benchmark.train_stream[0]
    assert samples(experience)[0] == 101
    assert int(experience.dataset.eval()[0][0]) == 201
    assert int(experience.dataset.eval().subset([1]).train()[0][0]) == 102
    assert samples(benchmark.test_stream[0])[0] == 201
    assert int(benchmark.test_stream[0].dataset.train()[0][0]) == 101


def test_pictures_become_tensors_between_zero_and_one():
    pictures = np.zeros((6, 8, 9, 3), dtype=np.uint8)
    pictures[:, :, :, 0] = 255
    splits = ((pictures, TRAIN), (torch.from_numpy(pictures[:4]), TEST))
    x, _ = multilabel_benchmark(*splits, "B2-C2").train_stream[0].dataset[0]
    assert x.shape == (3, 8, 9)
    assert x.dtype == torch.float32
    assert x.amax(dim=(1, 2)).tolist() == [1, 0, 0]
    x, _ = multilabel_benchmark(*splits, "B2-C2", image_size=5).test_stream[0].dataset[0]
    assert x.shape == (3, 5, 5)
    train = v2.Compose([v2.Resize((4, 4)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    x, _ = multilabel_benchmark(*splits, "B2-C2", train_transform=train).train_stream[0].dataset[0]
    assert x.shape == (3, 4, 4)


class Loud:
    """A data set that must not be read."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        raise AssertionError(f"image {index} was decoded")


def test_no_image_is_decoded_to_build_streams():
    benchmark = multilabel_benchmark(
        (Loud(), TRAIN), (Loud(), TRAIN), "B2-C2", validation_size=0.2, seed=4
    )
    assert benchmark.train_stream[0].dataset.targets.count
    with pytest.raises(AssertionError, match="was decoded"):
        benchmark.train_stream[0].dataset[0]


def test_a_data_set_with_labels_of_its_own_gives_its_inputs_only():
    pairs = [(torch.tensor(float(i)), "its own label") for i in range(6)]
    benchmark = multilabel_benchmark((pairs, TRAIN), (pairs, TRAIN), "B2-C2")
    x, y = benchmark.train_stream[1].dataset[0]
    assert (float(x), len(y)) == (1.0, 4)


def test_the_order_of_images_does_not_depend_on_the_hash_seed():
    code = (
        "import numpy as np\n"
        "from rebll_avalanche.benchmarks import multilabel_benchmark\n"
        "y = np.random.default_rng(0).random((60, 6)) < 0.3\n"
        "names = ['f', 'b', 'd', 'a', 'e', 'c']\n"
        "split = (np.arange(60.0), y)\n"
        "b = multilabel_benchmark(split, split, 'B2-C2', class_names=names, validation_size=10)\n"
        "order = [[int(x) for x, _ in e.dataset] for s in b.streams.values() for e in s]\n"
    )
    here: dict[str, object] = {}
    exec(code, here)
    there = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{code}print(order)"],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == str(here["order"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mode": "sequential"},
            "mode must be one of overlap, disjoint, once, repetition, got 'sequential'",
        ),
        ({"missing": "zero"}, "missing must be one of nan, negative, got 'zero'"),
        ({"on_error": "ignore"}, "on_error must be one of raise, skip, got 'ignore'"),
        ({"scenario": "B1-C2"}, "leaves 3 classes"),
        ({"class_names": ["a", "b"]}, "2 class names for 4 classes"),
        ({"validation_size": 6}, "validation_size=6 would hold out 6 of 6 training images"),
        ({"validation_size": -1}, "validation_size must be a finite number of at least 0, got -1"),
    ],
)
def test_options_that_do_not_exist_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_labels_that_do_not_fit_are_refused():
    inputs = np.arange(6.0)
    good = (inputs, TRAIN)
    with pytest.raises(ValueError, match=r"train has 6 images, .* got \(4, 4\)"):
        multilabel_benchmark((inputs, TRAIN[:4]), good, "B2-C2")
    with pytest.raises(ValueError, match=r"test has 6 images, .* got \(6,\)"):
        multilabel_benchmark(good, (inputs, TRAIN[:, 0]), "B2-C2")
    with pytest.raises(ValueError, match="4 classes, test for 3"):
        multilabel_benchmark(good, (inputs, TRAIN[:, :3]), "B2-C2")
    with pytest.raises(ValueError, match=r"got 2\.0 at index"):
        multilabel_benchmark((inputs, TRAIN * 2), good, "B2-C2")
    with pytest.raises(ValueError, match="map-style data set, got generator"):
        multilabel_benchmark(((x for x in inputs), TRAIN), good, "B2-C2")


def test_an_empty_experience_is_named():
    labels = TRAIN.copy()
    labels[:, :2] = 0
    split = (np.arange(6.0), labels)
    with pytest.raises(ValueError, match=r"experience 1 of the train stream is empty.*cat, dog"):
        multilabel_benchmark(split, split, "B2-C2", class_names=NAMES)


def test_the_picture_of_a_sample_is_there_as_long_as_its_file(tmp_path):
    files = [tmp_path / f"{number}.png" for number in range(6)]
    for number, file in enumerate(files):
        Image.new("RGB", (8, 4), (number, 0, 0)).save(file)
    split = (files, TRAIN)
    for features in (None, lambda source: torch.zeros(len(source), 3)):
        benchmark = multilabel_benchmark(split, split, "B2-C2", features=features)
        experience = benchmark.test_stream[-1]
        picture = experience.picture(1)
        assert picture.size == (8, 4)
        assert picture.getpixel((0, 0)) == (int(experience.image_indices[1]), 0, 0)
    files[int(experience.image_indices[1])].unlink()
    assert experience.picture(1) is None
    vectors = (np.arange(6.0), TRAIN)
    assert multilabel_benchmark(vectors, vectors, "B2-C2").test_stream[0].picture(0) is None
