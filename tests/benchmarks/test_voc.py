"""The VOC loader, on drawn scenes written as a devkit and on real images."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from rebll_avalanche.benchmarks import VOC2007, voc
from rebll_avalanche.benchmarks.shapes import CLASSES
from rebll_avalanche.benchmarks.voc import VOC_CLASSES, read_voc

NAMES = list(CLASSES)


@pytest.fixture(scope="module")
def written(scenes, tmp_path_factory):
    root = tmp_path_factory.mktemp("voc")
    scenes.write_voc(root)
    return root


@pytest.fixture
def devkit(written, tmp_path):
    """A devkit that a test may damage."""
    shutil.copytree(written, tmp_path / "data")
    return tmp_path / "data"


def load(root, scenario="B5-C3", **options):
    return VOC2007(scenario, root=root, class_names=NAMES, image_size=24, **options)


def sizes(stream):
    return [len(experience.dataset) for experience in stream]


def test_a_written_devkit_gives_the_streams_it_was_written_from(written, scenes):
    loaded = load(written)
    assert loaded.class_names == scenes.class_names
    for name in ("train", "test"):
        for ours, theirs in zip(loaded.streams[name], scenes.streams[name], strict=True):
            assert torch.equal(ours.full_targets, theirs.full_targets)
            assert torch.equal(ours.image_indices, theirs.image_indices)
            picture, drawn = (e.dataset.eval()[0][0] for e in (ours, theirs))
            assert (picture - drawn).abs().mean() < 0.05, "JPEG is close, not equal"


def test_writing_again_changes_nothing(devkit, scenes):
    before = read_voc(devkit, "2007", "test", NAMES)
    scenes.write_voc(devkit)
    after = read_voc(devkit, "2007", "test", NAMES)
    assert np.array_equal(before.labels, after.labels)
    assert np.array_equal(before.files.encoded, after.files.encoded)
    assert len(list((devkit / "VOCdevkit" / "VOC2007" / "JPEGImages").iterdir())) == 200


def test_training_images_are_augmented_and_test_images_are_not(written):
    loaded = load(written)
    train, test = loaded.train_stream[0].dataset, loaded.test_stream[0].dataset
    assert not torch.equal(train[0][0], train[0][0])
    assert torch.equal(test[0][0], test[0][0])


def edit(root, name, change):
    path = root / "VOCdevkit" / "VOC2007" / "Annotations" / f"{name}.xml"
    tree = ElementTree.parse(path)
    change(tree.getroot())
    tree.write(path)


def add_object(root, name, difficult):
    entry = ElementTree.SubElement(root, "object")
    ElementTree.SubElement(entry, "name").text = name
    ElementTree.SubElement(entry, "difficult").text = difficult


@pytest.mark.parametrize(("policy", "label"), [("drop", 0.0), ("keep", 1.0), ("unknown", np.nan)])
def test_difficult_objects_are_absent_present_or_unknown(devkit, scenes, policy, label):
    truth = scenes.scenes["train"].labels
    present, absent = NAMES[int(truth[0].argmax())], NAMES[int(truth[0].argmin())]

    def change(root):
        add_object(root, absent, "1")
        add_object(root, present, "1")

    edit(devkit, "000001", change)
    labels = read_voc(devkit, "2007", "trainval", NAMES, difficult=policy).labels
    expected = truth.copy()
    expected[0, NAMES.index(absent)] = label
    assert np.array_equal(labels, expected, equal_nan=True)


def test_the_second_start_reads_no_annotation(written, monkeypatch):
    first = read_voc(written, "2007", "test", NAMES)
    monkeypatch.setattr(voc, "_read_annotation", lambda *args: pytest.fail("read again"))
    second = read_voc(written, "2007", "test", NAMES)
    assert np.array_equal(first.labels, second.labels)
    assert [second.files.path(i) for i in range(80)] == [first.files.path(i) for i in range(80)]


def test_a_changed_annotation_is_read_again(devkit):
    before = read_voc(devkit, "2007", "trainval", NAMES).labels
    edit(devkit, "000001", lambda root: [add_object(root, name, "0") for name in NAMES])
    after = read_voc(devkit, "2007", "trainval", NAMES).labels
    assert after[0].all()
    assert np.array_equal(before[1:], after[1:])


def test_the_year_2012_has_train_and_val(devkit):
    folder = devkit / "VOCdevkit"
    (folder / "VOC2007").rename(folder / "VOC2012")
    lists = folder / "VOC2012" / "ImageSets" / "Main"
    (lists / "trainval.txt").rename(lists / "train.txt")
    (lists / "test.txt").rename(lists / "val.txt")
    assert len(load(devkit, year="2012").test_stream[-1].dataset) == 80
    with pytest.raises(ValueError, match="year must be one of 2007, 2012, got '2010'"):
        load(devkit, year="2010")


def test_a_missing_devkit_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"trainval\.txt is missing.*--data-root.*download=True"
    ):
        VOC2007("B5-C3", root=tmp_path / "nowhere")


def test_download_asks_torchvision_for_what_is_missing(written, tmp_path, monkeypatch):
    asked = []

    def fetch(root, year, image_set, download):
        asked.append((year, image_set, download))
        shutil.copytree(written, root, dirs_exist_ok=True)

    monkeypatch.setattr("torchvision.datasets.VOCDetection", fetch)
    benchmark = load(tmp_path / "data", download=True)
    assert asked == [("2007", "trainval", True)]
    assert len(benchmark.train_stream) == 6


def test_half_a_download_is_named(devkit):
    folder = devkit / "VOCdevkit" / "VOC2007"
    (folder / "Annotations" / "000003.xml").write_text("<annotation><object>")
    with pytest.raises(ValueError, match=r"cannot read .*000003\.xml.*incomplete"):
        load(devkit)
    (folder / "Annotations" / "000003.xml").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 120 annotations.*000003\.xml.*incomplete"):
        load(devkit)
    shutil.rmtree(folder / "JPEGImages")
    with pytest.raises(FileNotFoundError, match="JPEGImages is missing; the download is incomp"):
        load(devkit)


def test_an_annotation_without_its_image_is_named(devkit):
    (devkit / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000002.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 120 train images.*000002\.jpg \(missing\)"):
        load(devkit)


def test_an_image_that_does_not_decode_is_an_error_or_counted(devkit):
    (devkit / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000002.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(ValueError, match=r"1 of 120 train images cannot be used.*000002\.jpg"):
        load(devkit)
    for start in ("first", "second"):
        with pytest.warns(UserWarning, match=r"1 of 120 train images cannot be used.*000002\.jpg"):
            benchmark = load(devkit, on_error="skip")
        used = {int(i) for e in benchmark.train_stream for i in e.image_indices}
        assert used == set(range(120)) - {1}, start


def test_an_unknown_class_is_named(written):
    with pytest.raises(
        ValueError, match=r"\.xml names the unknown class '.*'; the classes are aero"
    ):
        VOC2007("B5-C3", root=written)
    with pytest.raises(ValueError, match="difficult must be one of drop, keep, unknown, got 'no'"):
        load(written, difficult="no")


def test_real_labels_have_the_known_counts(voc_root):
    labels = read_voc(voc_root, "2007", "trainval", VOC_CLASSES).labels
    assert labels.sum(axis=0).tolist() == [
        238, 243, 330, 181, 244, 186, 713, 337, 445, 141,
        200, 421, 287, 245, 2008, 245, 96, 229, 261, 256,
    ]  # fmt: skip
    assert round(labels.sum() / len(labels), 3) == 1.458


@pytest.mark.parametrize(
    ("scenario", "train_sizes"),
    [
        ("B5-C3", [1227, 1171, 687, 943, 2264, 709]),
        ("B4-C2", [985, 430, 1048, 586, 620, 532, 2180, 325, 517]),
    ],
)
def test_real_images_land_where_the_field_has_them(voc_root, scenario, train_sizes):
    benchmark = VOC2007(scenario, root=voc_root)
    assert sizes(benchmark.train_stream) == train_sizes
    truth = read_voc(voc_root, "2007", "test", VOC_CLASSES).labels == 1
    expected = [int(truth[:, :hi].any(axis=1).sum()) for _, hi in benchmark.scenario.ranges]
    assert sizes(benchmark.test_stream) == expected
    assert expected[-1] == 2476
    assert benchmark.class_names == list(VOC_CLASSES)
