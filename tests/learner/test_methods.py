"""Every method that a learner accepts goes on when the old pictures are gone."""

from __future__ import annotations

import re
import shutil

import pytest
import torch

from rebll_avalanche import METHODS, Learner
from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner.methods import REFUSED_ON_VECTORS


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(REFUSED_ON_VECTORS)))
def test_it_goes_on_from_its_file(method, month, small, tmp_path, draw):
    options = {"mem_size": 6} if METHODS[method].uses_memory else {}
    training = {"epochs": 2, "batch_size": 8, "lr": 0.002, "device": "cpu"}
    learner = small(method=method, training=training, **options)
    lessons = [["red", "green"], ["blue", "red"], ["green"]]
    for number, classes in enumerate(lessons):
        table = month(f"month{number}", classes, count=12, seed=number)
        learner.learn(table)
        shutil.rmtree(table.parent)
        learner = Learner.load(learner.save(tmp_path / "city.rebll"))
    assert learner.class_names == ("green", "red", "blue")
    scores = learner.scores([draw(["red"], 1), draw(["blue"], 2)])
    assert scores.shape == (2, 3)
    assert bool(scores.isfinite().all())
    learner.undo()
    assert len(learner.lessons) == 2
    assert not torch.equal(learner.scores([draw(["red"], 1), draw(["blue"], 2)]), scores)


def test_memory_keeps_what_it_needs_within_its_budget(month, small):
    learner = small(method="rebll", mem_size=6, training={"epochs": 1, "device": "cpu"})
    for number in range(3):
        learner.learn(month(f"month{number}", ["red", "green"], count=12, seed=number))
    archive = learner._know.require_taught()["kept"]
    assert sum(map(len, archive.values())) == 6
    assert len(archive) > 1


def test_what_is_exact_for_the_closed_form_alone_is_refused(month, small):
    learner = small(method="lwf", training={"epochs": 1, "device": "cpu"})
    learner.learn(month("march", ["red", "green"], count=12))
    assert "about as many of these pictures" in str(learner.lessons[0])
    for change in (
        lambda: learner.forget(classes="red"),
        lambda: learner.audit(),
        lambda: learner.merge(small()),
    ):
        with pytest.raises(RebllError, match="lwf cannot do it"):
            change()
    learner.undo()
    assert learner.class_names == ()


def test_a_class_is_not_called_more_often_than_its_lesson_shows_it(month, small):
    """Even by a head that has hardly been trained, whose scores are all alike."""
    training = {"epochs": 1, "lr": 1e-6, "device": "cpu"}
    learner = small(method="krt", training=training)
    table = month("march", ["red", "green"], count=24)
    learner.learn(table)
    shown = [line.split(",")[1].split(";") for line in table.read_text().splitlines()[1:]]
    called = [list(found) for found in learner.predict(table.parent).values()]
    for name in ("red", "green"):
        assert sum(name in each for each in called) <= sum(name in each for each in shown)
    learner.set_thresholds({"red": 0.1})
    learner.learn(month("april", ["red", "green"], count=24, seed=1))
    assert learner.thresholds["red"] == pytest.approx(0.1)


@pytest.mark.parametrize("method", sorted(REFUSED_ON_VECTORS))
def test_methods_that_need_old_data_are_refused(method):
    assert method in METHODS
    with pytest.raises(RebllError, match=f"{re.escape(method)} cannot be a learner"):
        Learner(method=method)
    with pytest.raises(
        ValueError, match="no method is called 'closed-from'; there are closed-form"
    ):
        Learner(method="closed-from")
