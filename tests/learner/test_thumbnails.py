"""Small pictures inside a learner's file: within their budget, for those who ask, gone when forgotten."""

from __future__ import annotations

import io
import shutil

import pytest
import torch
from PIL import Image

from rebll_avalanche import Learner
from rebll_avalanche.cli import main
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.learner.file import read_learner, write_learner
from rebll_avalanche.learner.sheet import draw_lessons
from rebll_avalanche.picture_store import Budget, PictureStore, thumbnail_of
from rebll_avalanche.pictures import decode_picture


def jpeg(colour: str) -> bytes:
    return thumbnail_of(Image.new("RGB", (200, 100), colour))


def test_budgets_as_people_say_them():
    assert Budget.of("0.5 mb") == Budget(num_bytes=500_000)
    assert Budget.of("12") == Budget(pictures=12)
    assert Budget.of(0).is_nothing
    for wrong in ("many", "-3", "3 GB", 1.5, True):
        with pytest.raises(RebllError, match="16 MB"):
            Budget.of(wrong)


def test_what_is_kept_does_not_depend_on_the_order():
    content = {key: jpeg("red") + b"x" * (key % 7) for key in range(-20, 20)}
    for budget in (Budget(pictures=9), Budget(num_bytes=9 * len(jpeg("red")) + 5)):
        at_once = PictureStore(budget).with_pictures(content)
        slowly = PictureStore(budget)
        for key in (*range(19, -21, -3), *range(-20, 20)):
            slowly = slowly.with_pictures({key: content[key]})
        assert dict(slowly.pictures) == dict(at_once.pictures)
        sizes = [len(each) for each in at_once.pictures.values()]
        assert budget.allows(len(sizes), sum(sizes))
        assert not budget.allows(len(sizes) + 1, sum(sizes) + max(sizes))


def test_there_and_back():
    store = PictureStore(Budget.of("1.234567 MB")).with_pictures({-5: jpeg("red"), 7: jpeg("blue")})
    back = PictureStore.from_dict(store.to_dict())
    assert back.pictures == store.pictures
    assert back.budget == store.budget
    assert len(PictureStore.from_dict(PictureStore().to_dict())) == 0
    good = store.to_dict()
    for part, wrong in (
        ("sizes", torch.tensor([1, 2])),
        ("sizes", torch.tensor([-5, len(good["bytes"]) + 5])),
        ("keys", torch.tensor([7, 7])),
        ("bytes", torch.zeros_like(good["bytes"])),
    ):
        with pytest.raises(DamagedError):
            PictureStore.from_dict(good | {part: wrong})


def test_nothing_but_pixels_comes_along(tmp_path):
    picture = Image.effect_mandelbrot((300, 200), (-2, -1.5, 1, 1.5), 40).convert("RGB")
    picture.info = {"comment": b"secret", "icc_profile": b"secret", "exif": b"Exif secret"}
    small = thumbnail_of(picture)
    assert b"secret" not in small
    assert Image.open(io.BytesIO(small)).size == (96, 64)
    assert picture.info["comment"] == b"secret", "the picture of the caller stays as it was"
    assert Image.open(io.BytesIO(thumbnail_of(Image.new("RGB", (1000, 1))))).size == (96, 1)


def test_a_picture_whose_file_is_gone_is_shown(month, small, tmp_path, draw):
    learner = small()
    table = month("march", ["red", "green"])
    table.write_text(table.read_text().replace("march0.png,red", "march0.png,green"))
    learner.learn(table)
    shutil.rmtree(tmp_path / "march")
    file = learner.save(tmp_path / "city.rebll")
    loaded = Learner.load(file)
    shown = decode_picture(loaded.thumbnail("march0.png"))
    assert max(shown.size) <= 96
    assert loaded.thumbnail(loaded.lessons[0].keys[0]) == loaded.thumbnail("march0.png")
    assert loaded.thumbnail("nobody.png") is None
    blurred = [each.reduce(8).tobytes() for each in (shown, draw(["red"], 0))]
    assert max(abs(one - other) for one, other in zip(*blurred, strict=True)) < 12
    sheet = tmp_path / "lessons.png"
    assert main(["show", str(file), "--to", str(sheet), "--images", "3"]) == 0
    with Image.open(sheet) as drawn:
        assert drawn.width > 300
    page = tmp_path / "page.html"
    assert main(["audit", str(file), "--html", str(page)]) == 0
    text = page.read_text()
    assert text.count("<img") == text.count("<li>") > 0


def test_none_are_kept_if_so_wished(month, small, tmp_path):
    learner = small(thumbnails=0)
    learner.learn(month("march", ["red", "green"]))
    assert learner.thumbnail("march0.png") is None
    with pytest.raises(RebllError, match="keeps no thumbnails"):
        draw_lessons(learner, tmp_path / "lessons.png")
    other = small(thumbnails=5)
    other.learn(tmp_path / "march" / "labels.csv")
    assert sum(other.thumbnail(key) is not None for key in other.lessons[0].keys) == 5
    learner = small(thumbnails=0)
    learner.merge(other)
    assert learner.thumbnail(other.lessons[0].keys[0]) is None


def test_forgetting_takes_the_pictures_along(month, small, tmp_path):
    learner = small()
    march = month("march", ["red", "green"])
    learner.learn(march)
    learner.learn(month("april", ["blue"], seed=1))

    def kept() -> set[str]:
        names = [name for lesson in learner.lessons for name in lesson.pictures]
        return {name for name in names if learner.thumbnail(name) is not None}

    def in_file() -> int:
        state = read_learner(learner.save(tmp_path / "city.rebll"))
        return len(state["know"]["thumbnails"]["keys"])

    assert len(kept()) == in_file() == 48
    learner.forget(images="march3.png")
    assert len(kept()) == in_file() == 47
    learner.forget(classes="red")
    lines = [line.split(",") for line in march.read_text().splitlines()[1:]]
    without = {file for file, labels in lines if "red" not in labels and file != "march3.png"}
    assert {name for name in kept() if name.startswith("march")} == without
    assert in_file() == len(without) + 24
    learner.forget(lesson=1)
    assert kept() == without
    learner.forget(lesson=0)
    assert in_file() == 0
    learner.learn(march)
    assert in_file() == 24, "the budget is that of before"


def test_undo_and_merging(month, small, tmp_path):
    one, other = small(), small()
    one.learn(month("march", ["red", "green"]))
    other.learn(month("april", ["blue"], seed=1))
    one.merge(other)
    assert one.thumbnail("april0.png") == other.thumbnail("april0.png") is not None
    trained = small(method="lwf", training={"epochs": 1})
    trained.learn(tmp_path / "march" / "labels.csv")
    trained.learn(tmp_path / "april" / "labels.csv")
    trained.undo()
    assert trained.thumbnail("march0.png") is not None
    assert trained.thumbnail("april0.png") is None


def test_a_forged_store_is_refused(month, small, tmp_path):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    file = learner.save(tmp_path / "city.rebll")
    state = read_learner(file)
    state["know"]["thumbnails"]["bytes"][:3] = 0
    write_learner(file, state)
    with pytest.raises(DamagedError, match="not readable"):
        Learner.load(file)
