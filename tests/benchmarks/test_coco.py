"""The COCO loader, on drawn scenes written in its layout and on real images."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from rebll_avalanche.benchmarks import COCO2014, coco
from rebll_avalanche.benchmarks.coco import read_coco
from rebll_avalanche.benchmarks.shapes import CLASSES

NAMES = list(CLASSES)


@pytest.fixture(scope="module")
def written(scenes, tmp_path_factory):
    root = tmp_path_factory.mktemp("coco")
    scenes.write_coco(root)
    return root


@pytest.fixture
def folder(written, tmp_path):
    """A COCO folder that a test may damage."""
    shutil.copytree(written, tmp_path / "data")
    return tmp_path / "data"


def annotations(root, split="train2014"):
    return root / "annotations" / f"instances_{split}.json"


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_written_folder_gives_the_streams_it_was_written_from(written, scenes):
    loaded = COCO2014("B5-C3", root=written, image_size=24)
    assert loaded.class_names == scenes.class_names
    for name in ("train", "test"):
        for ours, theirs in zip(loaded.streams[name], scenes.streams[name], strict=True):
            assert torch.equal(ours.full_targets, theirs.full_targets)
            picture, drawn = (e.dataset.eval()[0][0] for e in (ours, theirs))
            assert (picture - drawn).abs().mean() < 0.05, "JPEG is close, not equal"


def test_columns_are_alphabetical_and_rows_follow_the_image_number(folder, scenes):
    def shuffle(content):
        rng = np.random.default_rng(1)
        for key in ("images", "annotations", "categories"):
            content[key] = [content[key][index] for index in rng.permutation(len(content[key]))]
        names = {entry["id"]: entry["name"] for entry in content["categories"]}
        # Official numbers have gaps and their order is not that of the names.
        for entry in content["categories"]:
            entry["id"] = 900 - 7 * entry["id"]
        for entry in content["annotations"]:
            entry["category_id"] = 900 - 7 * entry["category_id"]
        assert len(names) == 20

    edit(annotations(folder), shuffle)
    table = read_coco(folder, "train2014")
    assert table.class_names == NAMES
    assert np.array_equal(table.labels, scenes.scenes["train"].labels)


@pytest.mark.parametrize(("policy", "label"), [("drop", 0.0), ("keep", 1.0), ("unknown", np.nan)])
def test_crowds_are_absent_present_or_unknown(folder, scenes, policy, label):
    truth = scenes.scenes["train"].labels
    present, absent = int(truth[0].argmax()), int(truth[0].argmin())

    def add_crowds(content):
        for column in (present, absent):
            crowd = {**content["annotations"][0], "image_id": 1, "category_id": column + 1}
            crowd |= {"id": 10_000 + column, "iscrowd": 1}
            content["annotations"].append(crowd)

    edit(annotations(folder), add_crowds)
    expected = truth.copy()
    expected[0, absent] = label
    labels = read_coco(folder, "train2014", crowd=policy).labels
    assert np.array_equal(labels, expected, equal_nan=True)


def test_the_second_start_reads_no_annotation(written, monkeypatch):
    first = read_coco(written, "val2014")
    monkeypatch.setattr(coco, "_read", lambda *args: pytest.fail("read again"))
    assert np.array_equal(read_coco(written, "val2014").labels, first.labels)


def test_images_without_objects_are_in_no_experience(folder):
    def strip(content):
        content["annotations"] = [a for a in content["annotations"] if a["image_id"] != 5]

    edit(annotations(folder), strip)
    benchmark = COCO2014("B5-C3", root=folder, image_size=24)
    used = {int(i) for e in benchmark.train_stream for i in e.image_indices}
    assert used == set(range(120)) - {4}


def test_what_is_missing_or_incomplete_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"instances_train2014\.json is missing"):
        COCO2014("B5-C3", root=folder / "nowhere")
    with pytest.raises(ValueError, match="crowd must be one of drop, keep, unknown, got 'yes'"):
        COCO2014("B5-C3", root=folder, crowd="yes")
    next((folder / "val2014").iterdir()).unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 80 test images cannot be used.*\(missing\)"):
        COCO2014("B5-C3", root=folder)
    path = annotations(folder)
    path.write_text(path.read_text()[:1000])
    with pytest.raises(ValueError, match=r"cannot read .*train2014\.json.*incomplete"):
        COCO2014("B5-C3", root=folder)
    shutil.rmtree(folder / "train2014")
    with pytest.raises(FileNotFoundError, match="train2014 is missing"):
        COCO2014("B5-C3", root=folder)


def test_splits_with_different_classes_are_refused(folder):
    def rename(content):
        content["categories"][0]["name"] = "boat"

    edit(annotations(folder, "val2014"), rename)
    with pytest.raises(ValueError, match="do not have the same classes: arrow, boat"):
        COCO2014("B5-C3", root=folder)


def test_real_images_give_eighty_classes_in_sixteen_experiences(coco_root):
    benchmark = COCO2014("B20-C4", root=coco_root)
    assert len(benchmark.train_stream) == len(benchmark.test_stream) == 16
    assert benchmark.class_names == sorted(benchmark.class_names)
    assert (len(benchmark.class_names), benchmark.class_names[0]) == (80, "airplane")
    table = read_coco(coco_root, "train2014")
    assert table.labels.shape == (4000, 80)
    assert table.labels.sum(axis=0).min() >= 45
    for (lo, hi), experience in zip(benchmark.scenario.ranges, benchmark.train_stream, strict=True):
        assert len(experience.dataset) == table.labels[:, lo:hi].any(axis=1).sum()
