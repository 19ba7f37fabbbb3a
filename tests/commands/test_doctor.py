"""What the doctor finds."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from rebll_avalanche.commands import doctor


def test_this_environment_fits_together() -> None:
    marks = [mark for mark, _ in doctor.check_versions()]
    assert marks[0] == doctor.GOOD
    assert doctor.BAD not in marks


def test_a_version_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["torch>=99", "nothing-like-it"])
    found = [text for mark, text in doctor.check_requirements("torchvision") if mark == doctor.BAD]
    assert "torchvision needs torch>=99, but" in found[0]
    assert 'pip install "nothing-like-it"' in found[1]


def test_a_full_disk_is_bad(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = namedtuple("usage", "free")
    for free, mark in ((1e9, doctor.BAD), (1e12, doctor.GOOD)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage(free))
        assert [found for found, _ in doctor.check_disk(tmp_path)] == [mark]


def test_data_folders_are_counted(tmp_path: Path) -> None:
    devkit = tmp_path / "VOCdevkit" / "VOC2007"
    for folder in ("JPEGImages", "ImageSets/Main"):
        (devkit / folder).mkdir(parents=True)
    for name in ("000001", "000002"):
        (devkit / "JPEGImages" / f"{name}.jpg").touch()
    (devkit / "ImageSets/Main/trainval.txt").write_text("000001\n000002\n")
    (devkit / "ImageSets/Main/test.txt").write_text("000003\n")
    (tmp_path / "annotations").mkdir()
    found = dict(reversed(finding) for finding in doctor.check_data(tmp_path))
    assert found["VOC 2007 trainval: 2 images, the official split has 5011"] == doctor.NOTE
    assert found["VOC 2007 test: 0 of 1 images found"] == doctor.BAD
    assert any("instances_train2014.json" in text for text in found)
    assert [mark for mark, _ in doctor.check_data(tmp_path / "none")] == [doctor.NOTE]


def test_complete_data_are_good(voc_root: Path) -> None:
    found = dict(reversed(finding) for finding in doctor.check_data(voc_root))
    assert found["VOC 2007 trainval: all 5011 images"] == doctor.GOOD
