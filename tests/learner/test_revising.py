"""Forgetting and correcting: the pictures that are meant, all that came of them, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rebll_avalanche import Learner
from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner.ridge import ridge_of


def ridge(learner):
    return ridge_of(learner._know.require_taught())


def same_head(ours, theirs):
    """With its calibration, which is what probabilities come from."""
    mine, other = (ridge(each).head_so_far()[1] for each in (ours, theirs))
    torch.testing.assert_close(mine.weight, other.weight, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(mine.bias, other.bias, rtol=1e-5, atol=1e-7)


def test_another_picture_of_the_same_name_is_another_picture(month, small, draw, tmp_path):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    april = tmp_path / "april"
    april.mkdir()
    draw(["red"], 4321).save(april / "march3.png")  # never learned
    for given in (april, [april / "march3.png"]):
        with pytest.raises(RebllError, match=r"never learned.*its id"):
            learner.forget(images=given)
    table = april / "labels.csv"
    table.write_text("file,labels\nmarch3.png,green\n")
    with pytest.raises(RebllError, match="never learned"):
        learner.correct(table)
    assert len(learner.lessons[0].pictures) == 24

    pictures = [np.asarray(draw(["red"] * (n % 2), n)) for n in range(12)]
    matrix = np.array([[n % 2] for n in range(12)])
    learner.learn((pictures, matrix), class_names=["red"])
    strange = ([np.asarray(draw(["green"], 9999))], np.array([[1]]))
    with pytest.raises(RebllError, match="never learned"):
        learner.forget(images=strange[0])
    assert len(learner.lessons[1].pictures) == 12


def test_a_forgotten_lesson_takes_pictures_along_that_were_corrected(month, small):
    march, april = month("march", ["red"]), month("april", ["blue"], seed=1)
    learner = small()
    learner.learn(march)
    learner.learn(april)
    more = april.with_name("more.csv")
    more.write_text("file,labels\n" + "".join(f"april{n}.png,red\n" for n in range(5)))
    learner.correct(more)
    learner.forget(lesson=1)
    assert len(ridge(learner).records) == 24
    assert learner.class_names == ("red",)


@pytest.mark.parametrize("unknown", ["negative", "shrunk"])
def test_calibration_forgets_too(month, small, unknown):
    march, april = month("march", ["red", "green"]), month("april", ["red"], seed=1)
    both, only_march = small(unknown=unknown), small(unknown=unknown)
    only_march.learn(march)
    both.learn(march)
    both.learn(april)
    both.forget(lesson=1)
    same_head(both, only_march)
    both.learn(april)
    both.forget(images=april.parent)  # the lesson stays, with no picture in it
    same_head(both, only_march)
    assert [len(lesson.pictures) for lesson in both.lessons] == [24, 0]
    assert both.undo().pictures == ()
    same_head(both, only_march)

    both.learn(april)
    both.forget(images=march.parent)  # the first one is empty now
    both.forget(classes="green")
    only_april = small(unknown=unknown)
    only_april.learn(april)
    file = april.parent / "april3.png"
    torch.testing.assert_close(both.scores(file), only_april.scores(file), rtol=0.01, atol=1e-3)
    other = small(unknown=unknown)
    other.merge(both)
    other.merge(both)  # after lessons of its own, one of them empty
    assert len(other.lessons) == 4


def test_calibration_follows_a_correction(month, small):
    right = month("march", ["red", "green"], count=40)
    lines = right.read_text().splitlines()
    spoiled = right.with_name("spoiled.csv")
    wrong = [f"{line.split(',')[0]},red" for line in lines[10:20]]
    spoiled.write_text("\n".join([*lines[:10], *wrong, *lines[20:]]))
    learner, taught_right = small(unknown="negative"), small(unknown="negative")
    learner.learn(spoiled)
    taught_right.learn(right)
    learner.correct(right)
    same_head(learner, taught_right)


def test_a_forgotten_class_leaves_the_lessons(month, small):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    learner.forget(classes="red")
    assert learner.lessons[0].new_classes == ("green",)
    assert [quality.name for quality in learner.lessons[0].qualities] == ["green"]
    learner.learn(month("april", ["red"], seed=1))
    learner.undo()
    assert learner.class_names == ("green",)
    learner.rename("green", "red")
    assert learner.lessons[0].new_classes == ("red",)


def test_a_picture_named_twice(month, small):
    table = month("march", ["red", "green"])
    learner = small()
    learner.learn(table)
    learner.forget(images=[table.parent / "march3.png", "march3.png", "march4.png"])
    assert len(learner.lessons[0].pictures) == 22
    (table.parent / "copy.png").write_bytes((table.parent / "march5.png").read_bytes())
    twice = table.with_name("twice.csv")
    twice.write_text("file,labels\nmarch5.png,red\ncopy.png,green\n")
    with pytest.raises(RebllError, match="listed twice"):
        learner.correct(twice)


def test_only_vectors_of_one_network_are_merged(month):
    def trained_from_pictures(seed, table):
        learner = Learner(backbone="small_cnn", frozen=False, image_size=32, seed=seed)
        learner.learn(table)
        return learner

    march, april = month("march", ["red"]), month("april", ["blue"], seed=1)
    here = trained_from_pictures(0, march)
    here.merge(trained_from_pictures(0, april))
    assert here.class_names == ("red", "blue")
    with pytest.raises(RebllError, match="other weights"):
        here.merge(trained_from_pictures(1, april))


def test_an_empty_learner_keeps_its_precision_when_it_merges(month, small):
    other, empty = small(), small(precision=0.6)
    table = month("march", ["red", "green"], count=40)
    lines = table.read_text().splitlines()
    wrong = [f"{line.split(',')[0]},red" for line in lines[25:35]]  # so that precision has a price
    table.write_text("\n".join([*lines[:25], *wrong, *lines[35:]]))
    other.learn(table)
    empty.merge(other)
    expected = small()
    expected.merge(other)
    expected.choose_thresholds(precision=0.6)
    assert empty.thresholds == expected.thresholds != other.thresholds
