"""Thresholds that a person has set stay until they are given back; the others follow the lessons."""

from __future__ import annotations

import pytest
import torch

from rebll_avalanche import Learner
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.learner import judging
from rebll_avalanche.learner.file import read_learner, write_learner
from rebll_avalanche.learner.quality import best_threshold, best_thresholds, matching_thresholds


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
    green = learner.thresholds["green"]
    learner.learn(month("april", ["blue"], count=12, seed=1))
    learner.set_thresholds({"red": 0.125, "blue": 0.25})
    learner.undo()
    assert learner.kept_thresholds == {"red": 0.125}
    assert learner.thresholds == {"green": green, "red": 0.125}


def test_that_of_a_rare_class_is_near_those_of_all():
    """Two pictures say little about where a threshold should lie, a thousand say all."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(2000, 3, generator=generator) < 0.5).float()
    labels[:, 2] = 0
    labels[:2, 1:] = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    labels[2:, 1] = 0
    noise = torch.rand(2000, 3, generator=generator)
    scores = 0.3 + 0.6 * labels * noise + 0.1 * noise
    scores[:2, 1], scores[2:, 1] = 0.05, 0.01
    own = [best_threshold(scores[:, column], labels[:, column]) for column in range(3)]
    found = best_thresholds(scores, labels).tolist()
    assert found[0] == pytest.approx(own[0], abs=0.02)
    assert own[1] == pytest.approx(0.03)
    assert 0.15 < found[1] < found[0]
    assert found[2] == 0.5, "nobody has ever shown it"
    kept = best_thresholds(scores, labels, 0.9)
    assert kept[1] == pytest.approx(own[1]), "a precision that was asked for is kept"
    assert best_thresholds(torch.zeros(0, 0), torch.zeros(0, 0)).shape == (0,)


def test_weights_stand_for_pictures_that_were_not_scored():
    scores, truth = torch.tensor([0.9, 0.6, 0.5, 0.2]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    weights = torch.tensor([1.0, 5.0, 1.0, 5.0])
    times = weights.long()
    whole = best_threshold(scores.repeat_interleave(times), truth.repeat_interleave(times))
    assert best_threshold(scores, truth, weights=weights) == whole != best_threshold(scores, truth)


def test_a_sample_leaves_no_rare_class_out(taught, month, monkeypatch):
    learner = taught
    march = month("april", ["red", "blue"], count=40, seed=3)
    lines = march.read_text().splitlines()
    rare = {3, 9}  # not among every sixth
    march.write_text(
        "\n".join(
            [
                lines[0],
                *(
                    f"{x.split(',')[0]},{'blue' if n in rare else 'red'}"
                    for n, x in enumerate(lines[1:])
                ),
            ]
        )
    )
    learner.learn(march)
    learner.choose_thresholds(precision=0.5)
    full = learner.thresholds
    assert full["blue"] != 0.5
    monkeypatch.setattr(judging, "THRESHOLD_PICTURES", 15)
    learner.choose_thresholds(precision=0.5)
    assert learner.thresholds["blue"] != 0.5


def test_a_method_that_trains_calls_a_class_as_often_as_it_is_shown():
    """Whatever the scale of its scores: a rare class of a lesson may never reach 0.5."""
    labels = torch.tensor([1.0, 1.0, 0.0, 0.0])[:, None]

    def chosen(*scores: float, given: torch.Tensor = labels, before: float = 0.5) -> float:
        column = torch.tensor(scores)[:, None]
        return matching_thresholds(column, given, torch.tensor([before])).item()

    assert 0.1 < chosen(0.3, 0.2, 0.1, 0.1) < 0.3, "the class has a chance"
    assert 0.5 < chosen(0.98, 0.96, 0.44, 0.1) < 0.9, "in the middle, drawn a little towards 0.5"
    assert chosen(0.9, 0.8, 0.8, 0.8) == pytest.approx(0.8), "equal scores are not called"
    assert chosen(0.9, 0.8, 0.7, 0.6, given=0 * labels) == pytest.approx(0.9), "none shows it"
    assert chosen(0.3, 0.2, 0.1, 0.1, given=0 * labels, before=0.4) == pytest.approx(0.4)
    assert chosen(0.9, 0.8, 0.7, 0.6, given=0 * labels + 1, before=0.2) == pytest.approx(0.2)
    assert chosen(0.9, 0.8, 0.7, 0.6, given=torch.nan * labels, before=0.2) == pytest.approx(0.2)
