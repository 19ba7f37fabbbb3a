"""The page about one run: its classes in numbers, its worst images, what preparation took."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from sklearn.metrics import precision_score, recall_score

from rebll_avalanche.errors import DamagedError, UnsafeError
from rebll_avalanche.picture_store import thumbnail_of
from rebll_avalanche.report import read_runs, write_report
from rebll_avalanche.report.one_run import class_rows, worst_images
from rebll_avalanche.report.runs import LARGEST_PICTURE, read_run

Write = Callable[..., Path]


def test_class_rows_are_those_of_scikit_learn(tmp_path: Path, write_run: Write) -> None:
    run = read_run(write_run(tmp_path / "run", "lwf"))
    assert run.scores is not None
    scores, truth = run.scores["scores"], run.scores["truth"]
    rows = class_rows(run, [0.8, 0.5])
    assert [row.name for row in rows] == run.scores["class_names"].tolist()
    for column, row in enumerate(rows):
        assert row.present == truth[:, column].sum()
        assert row.absent == len(truth) - row.present
        assert row.ap == run.last.per_class_ap[row.name]
        for threshold, (precision, recall) in zip((0.8, 0.5), row.at, strict=True):
            said = scores[:, column] > threshold
            assert recall == pytest.approx(recall_score(truth[:, column], said))
            if said.any():
                assert precision == pytest.approx(precision_score(truth[:, column], said))
            else:
                assert precision is None


def _with_scores(folder: Path, **more: np.ndarray) -> Path:
    scores = np.array([[0.9, 0.1], [0.2, 0.9], [0.01, 0.6]], dtype=np.float32)
    truth = np.array([[1, 0], [1, np.nan], [1, 0]], dtype=np.float32)
    np.savez(
        folder / "scores.npz", scores=scores, truth=truth, class_names=np.array(["a", "b"]), **more
    )
    return folder


def test_worst_images_have_a_wrong_decision_and_the_least_probable_labels_first(
    tmp_path: Path, write_run: Write
) -> None:
    names = np.array(["one.jpg", "two.jpg", "three.jpg"])
    folder = _with_scores(write_run(tmp_path / "run", "lwf"), image_names=names)
    first, second = worst_images(read_run(folder), 0.5)
    assert (first.name, second.name) == ("three.jpg", "two.jpg")
    assert [name for name, _ in first.missed] == ["a"]
    assert [name for name, _ in first.wrong] == ["b"]
    assert second.wrong == []  # nobody has said whether b is there
    assert len(worst_images(read_run(folder), 0.5, count=1)) == 1
    unnamed = read_run(_with_scores(tmp_path / "run"))
    assert worst_images(unnamed, 0.5)[0].name == "image 2"


def _jpeg() -> np.ndarray:
    return np.frombuffer(thumbnail_of(Image.new("RGB", (96, 64), "red")), np.uint8)


def test_worst_images_are_shown_with_the_pictures_that_the_run_has_kept(
    tmp_path: Path, write_run: Write
) -> None:
    folder = _with_scores(write_run(tmp_path / "run", "lwf"), picture_2=_jpeg())
    first, second = worst_images(read_run(folder), 0.5)
    assert first.picture == _jpeg().tobytes()
    assert second.picture is None
    page = write_report(read_runs([folder])[0], tmp_path / "one.html").read_text()
    assert page.count('<img src="data:image/jpeg;base64,') == 1


@pytest.mark.parametrize("name", ["picture_0", "picture_x"])
def test_what_is_no_small_picture_is_not_embedded(
    tmp_path: Path, write_run: Write, name: str
) -> None:
    for content in (
        np.frombuffer(b"<svg onload=...>", np.uint8),
        np.concatenate([_jpeg(), np.zeros(LARGEST_PICTURE, np.uint8)]),
        _jpeg(),
    ):
        folder = _with_scores(write_run(tmp_path / str(len(content)), "lwf"), **{name: content})
        if name == "picture_0" and len(content) == len(_jpeg()):
            assert read_run(folder).pictures
        else:
            with pytest.raises(UnsafeError, match="is not a small picture"):
                read_run(folder)


def test_names_that_do_not_fit_are_refused(tmp_path: Path, write_run: Write) -> None:
    folder = _with_scores(write_run(tmp_path / "run", "lwf"), image_names=np.array(["one.jpg"]))
    with pytest.raises(DamagedError, match="does not fit together"):
        read_run(folder)


def test_a_page_about_one_run_shows_them_and_one_about_several_does_not(
    tmp_path: Path, write_run: Write
) -> None:
    folder = write_run(tmp_path / "runs" / "lwf", "lwf")
    content = yaml.safe_load((folder / "config.yaml").read_text())
    content["environment"] = {"preparation_seconds": 90.0}
    (folder / "config.yaml").write_text(yaml.safe_dump(content))
    page = write_report(read_runs([folder])[0], tmp_path / "one.html").read_text()
    assert "<h3>Every class</h3>" in page
    assert "<h3>Worst images</h3>" in page
    assert "took up to 1.5 min" in page
    write_run(tmp_path / "runs" / "er", "er")
    both = write_report(read_runs([tmp_path / "runs"])[0], tmp_path / "two.html").read_text()
    assert "<h3>Every class</h3>" not in both
