"""Thresholds that a person has set stay until they are given back; the others follow the lessons."""

from __future__ import annotations

import pytest

from rebll_avalanche import Learner
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.learner.file import read_learner, write_learner


@pytest.fixture
def taught(month, small) -> Learner:
    learner = small()
    learner.learn(month("march", ["red", "green"], count=40))
    return learner


def test_they_stay_through_lessons_and_in_the_file(taught, month, tmp_path, draw):
    before = taught.thresholds
    taught.set_thresholds({"red": 0.125})
    assert taught.thresholds == {**before, "red": 0.125}
    taught.learn(month("april", ["red", "blue"], count=20, seed=3))
    again = Learner.load(taught.save(tmp_path / "city.rebll"))
    for learner in (taught, again):
        assert learner.thresholds["red"] == 0.125
        assert learner.kept_thresholds == {"red": 0.125}
    [quality] = [each for each in taught.lessons[1].qualities if each.name == "red"]
    assert quality.threshold == 0.125
    again.set_thresholds({"red": 1, "green": 1, "blue": 1})
    assert again.predict(draw(["red"], 5)) == {}
    again.set_thresholds({"red": 0, "green": 0, "blue": 0})
    assert set(again.predict(draw([], 5))) == {"red", "green", "blue"}


def test_they_follow_their_class(taught, month):
    taught.set_thresholds({"red": 0.125, "green": 0.75})
    taught.rename("red", "crimson")
    taught.forget(images=["march3.png"])
    assert taught.thresholds == {"green": 0.75, "crimson": 0.125}
    taught.forget(classes="crimson")
    assert taught.kept_thresholds == {"green": 0.75}
    taught.rename("green", "crimson")  # the name of the one that was forgotten
    assert taught.thresholds == {"crimson": 0.75}
    taught.learn(month("april", ["green"], count=20, seed=3))
    assert taught.kept_thresholds == {"crimson": 0.75}, "green came back without a past"


def test_they_are_chosen_again(taught):
    best = taught.thresholds
    taught.set_thresholds({"red": 0.125})
    taught.choose_thresholds()
    assert (taught.thresholds, taught.kept_thresholds) == (best, {})
    taught.choose_thresholds(precision=1.0)
    assert taught.precision == 1.0
    assert all(each.precision == 1.0 for each in taught.qualities())
    taught.choose_thresholds()
    assert taught.thresholds == best


def test_merging_keeps_ones_own(taught, month, small):
    other = small()
    other.learn(month("april", ["red", "blue"], count=20, seed=3))
    other.set_thresholds({"red": 0.25, "blue": 0.5})
    taught.set_thresholds({"red": 0.125})
    taught.merge(other)
    assert taught.kept_thresholds == {"red": 0.125, "blue": 0.5}


def test_what_cannot_be_meant(taught, tmp_path, small):
    for wrong in ({"rad": 0.5}, {"red": 1.5}, {"red": float("nan")}):
        with pytest.raises(RebllError):
            taught.set_thresholds(wrong)
    with pytest.raises(RebllError, match="at most 1"):
        taught.choose_thresholds(precision=90)
    assert taught.kept_thresholds == {}
    with pytest.raises(RebllError, match="choosing thresholds"):
        small(method="lwf").choose_thresholds()
    file = taught.save(tmp_path / "city.rebll")
    forged = read_learner(file)
    forged["know"]["kept_thresholds"] = {"cat": 0.5}
    write_learner(file, forged)
    with pytest.raises(DamagedError):
        Learner.load(file)
    del forged["know"]["kept_thresholds"]  # as earlier versions wrote it
    write_learner(file, forged)
    assert Learner.load(file).kept_thresholds == {}


def test_qualities_speak_of_all_pictures(taught, month, small):
    taught.learn(month("april", ["red", "blue"], count=20, seed=3))
    found = {each.name: each for each in taught.qualities()}
    assert (found["red"].positives + found["red"].negatives) == 60
    assert (found["green"].positives + found["green"].negatives) == 40
    assert (found["blue"].positives + found["blue"].negatives) == 20
    assert {name: each.threshold for name, each in found.items()} == pytest.approx(
        taught.thresholds
    )
    assert small().qualities() == ()


def test_methods_that_train_keep_them_when_a_lesson_is_undone(month, small):
    learner = small(method="lwf", training={"epochs": 1, "device": "cpu"})
    learner.learn(month("march", ["red", "green"], count=12))
    learner.learn(month("april", ["blue"], count=12, seed=1))
    learner.set_thresholds({"red": 0.125, "blue": 0.25})
    learner.undo()
    assert learner.kept_thresholds == {"red": 0.125}
    assert learner.thresholds == {"green": 0.5, "red": 0.125}
