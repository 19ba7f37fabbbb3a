"""Lessons one after the other, answers, corrections, and forgetting that leaves nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import average_precision_score

from rebll_avalanche import Learner
from rebll_avalanche.errors import PictureError, RebllError
from rebll_avalanche.learner.ridge import ridge_of


def test_months_go_by_and_old_folders_are_gone(month, small, tmp_path, draw):
    learner = small()
    march = month("march", ["red", "green"], count=40)
    lesson = learner.learn(march)
    assert lesson.new_classes == ("green", "red")
    assert len(lesson.pictures) == 40
    assert {quality.name for quality in lesson.qualities} == {"red", "green"}
    assert "leave-one-out" in str(lesson)
    shutil.rmtree(march.parent)

    lesson = learner.learn(month("april", ["blue", "red"], count=40, seed=1))
    assert (lesson.new_classes, lesson.known_classes) == (("blue",), ("red",))
    shutil.rmtree(tmp_path / "april")
    lesson = learner.learn(month("may", ["green"], count=20, seed=2))  # nothing new
    assert lesson.new_classes == ()
    shutil.rmtree(tmp_path / "may")

    assert learner.class_names == ("green", "red", "blue")
    held_out = month("held_out", ["red", "green", "blue"], count=40, seed=9)
    found = learner.evaluate(held_out)
    assert found.mean_average_precision > 0.85
    assert found.learned_pictures == 0

    answer = learner.predict(draw(["red"], 77777))
    assert all(learner.thresholds[name] < score <= 1 for name, score in answer.items())


def test_lessons_equal_one_lesson_with_all_labels(month, small, draw):
    """Two halves of a table, fully labelled, teach what the whole teaches."""
    table = month("all", ["red", "green"], count=30)
    whole, halves = small(unknown="negative"), small(unknown="negative")
    whole.learn(table)
    rows = table.read_text().splitlines()
    for number, part in enumerate((rows[1:16], rows[16:])):
        half = table.with_name(f"half{number}.csv")
        half.write_text("\n".join([rows[0], *part]))
        halves.learn(half, about=["green", "red"])
    picture = draw(["green"], 5)
    gap = (whole.scores(picture) - halves.scores(picture)).abs().max()
    assert gap < 0.05  # calibrated on other samples; the head itself is the same
    one, two = (ridge_of(each._know.require_taught()).head_so_far()[0] for each in (whole, halves))
    torch.testing.assert_close(one.weight, two.weight, rtol=1e-5, atol=1e-7)


def test_evaluation_equals_scikit_learns(month, small):
    learner = small()
    learner.learn(month("march", ["red", "green"], count=30))
    table = month("held_out", ["red", "green", "blue"], count=30, seed=3)
    found = learner.evaluate(table)
    assert found.unknown_classes == ("blue",)
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    scores = learner.scores([table.parent / row[0] for row in rows]).numpy()
    for quality in found.qualities:
        column = learner.class_names.index(quality.name)
        truth = np.array([quality.name in row[1].split(";") for row in rows])
        called = scores[:, column] > learner.thresholds[quality.name]
        expected = average_precision_score(truth, scores[:, column])
        assert quality.average_precision == pytest.approx(expected, abs=1e-6)
        assert quality.recall == pytest.approx((called & truth).sum() / truth.sum())


def test_a_lesson_that_fails_changes_nothing(month, small, monkeypatch, draw):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    picture = draw(["red"], 3)
    before = learner.scores(picture), learner.lessons, learner.class_names

    april = month("april", ["blue"], seed=1)
    (april.parent / "april3.png").write_bytes(b"no picture")
    with pytest.raises(RebllError, match=r"april3\.png"):
        learner.learn(april)
    assert learner.learn(april, on_error="skip").pictures[3] == "april4.png"
    learner.undo()

    from rebll_avalanche.learner import teaching

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(teaching, "capture", stopped)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(month("may", ["blue"], seed=2))
    assert (learner.lessons, learner.class_names) == before[1:]
    torch.testing.assert_close(learner.scores(picture), before[0])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_among_the_pictures_is_not_waited_for(month, small):
    table = month("march", ["red", "green"])
    picture = next(table.parent.rglob("*.png"))
    picture.unlink()
    os.mkfifo(picture)
    with pytest.raises(PictureError, match="it is a pipe, socket or device, not a file"):
        small().learn(table)


def test_wrong_labels_are_found_and_corrected(month, small):
    right = month("march", ["red", "green"], count=60)
    lines = right.read_text().splitlines()
    wrong = [12, 25, 41]
    spoiled = list(lines)
    for row in wrong:
        name, labels = lines[row].split(",")
        shown = set(labels.split(";")) - {""}
        spoiled[row] = f"{name},{';'.join(shown ^ {'red'})}"
    spoiled_table = right.with_name("spoiled.csv")
    spoiled_table.write_text("\n".join(spoiled))
    learner, taught_right = small(), small()
    learner.learn(spoiled_table)
    taught_right.learn(right)

    names = [lines[row].split(",")[0] for row in wrong]
    suspects = learner.audit()
    assert {s.picture for s in suspects[:4] if s.name == "red"} >= set(names)

    corrections = right.with_name("corrections.csv")
    corrections.write_text("\n".join([lines[0], *(lines[row] for row in wrong)]))
    for name in names:  # gone: known by name
        (right.parent / name).unlink()
    changed = learner.correct(corrections, about=["red", "green"])
    assert changed.changed == {"red": 3}
    ours, theirs = (
        ridge_of(each._know.require_taught()).head_so_far()[0] for each in (learner, taught_right)
    )
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-5, atol=1e-8)

    strangers = right.with_name("strangers.csv")
    strangers.write_text("file,labels\na.png,red\nb.png,red\n")
    with pytest.raises(RebllError, match="2 of 2 pictures were never learned: a"):
        learner.correct(strangers)


def test_forgetting_leaves_what_the_rest_teaches(month, small, draw):
    march, april = month("march", ["red", "green"]), month("april", ["blue"], seed=1)
    both, only_march = small(), small()
    only_march.learn(march)
    both.learn(march)
    both.learn(april)
    both.forget(lesson=1)
    assert both.class_names == ("green", "red")
    picture = draw(["red"], 8)
    torch.testing.assert_close(both.scores(picture), only_march.scores(picture))

    both.learn(april)  # it comes back, into the column that it had
    assert both.class_names == ("green", "red", "blue")
    assert both.undo().source == "labels.csv"
    torch.testing.assert_close(both.scores(picture), only_march.scores(picture))

    both.forget(images=[march.parent / "march5.png", "march6.png"])
    assert len(both.lessons[0].pictures) == 22
    lines = march.read_text().splitlines()
    fewer = march.with_name("fewer.csv")
    fewer.write_text("\n".join(line for line in lines if line[:7] not in ("march5.", "march6.")))
    expected = small()
    expected.learn(fewer)
    ours, theirs = (
        ridge_of(each._know.require_taught()).head_so_far()[0] for each in (both, expected)
    )
    torch.testing.assert_close(ours.weight[:, :2], theirs.weight, rtol=1e-5, atol=1e-8)

    both.forget(classes="red")
    assert set(both.ranked(picture)[0]) == {"green"}
    with pytest.raises(RebllError, match="no class 'red'"):
        both.forget(classes="red")
    both.forget(lesson=0)
    assert both.class_names == ()
    with pytest.raises(RebllError, match="not been taught"):
        both.predict(picture)


def test_merging_equals_learning_both(month, small, tmp_path, draw):
    march, april = month("march", ["red", "green"]), month("april", ["blue", "red"], seed=1)
    here, there, both = small(), small(), small()
    here.learn(march)
    there.learn(april)
    both.learn(march)
    both.learn(april)
    here.merge(Learner.load(there.save(tmp_path / "there.rebll")))
    assert here.class_names == both.class_names
    assert [lesson.number for lesson in here.lessons] == [0, 1]
    picture = draw(["blue"], 4)
    torch.testing.assert_close(here.scores(picture), both.scores(picture), rtol=1e-4, atol=1e-5)
    here.forget(lesson=1)
    assert here.class_names == ("green", "red")
    with pytest.raises(RebllError, match="made in the same way"):
        here.merge(_taught(small(shrink=0.4), march))


def _taught(learner, table):
    learner.learn(table)
    return learner


def test_rename(month, small):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    learner.rename("red", "crimson")
    assert learner.class_names == ("green", "crimson")
    assert learner.lessons[0].new_classes == ("green", "crimson")
    with pytest.raises(RebllError, match="already"):
        learner.rename("green", "crimson")
    with pytest.raises(RebllError, match="differ only in case"):
        learner.learn(month("april", ["red"], seed=1), about=["Crimson"])


def test_suggestions_are_uncertain_and_differ(month, small, tmp_path, draw):
    learner = small()
    learner.learn(month("march", ["red", "green"], count=40))
    new = tmp_path / "new"
    new.mkdir()
    for number in range(6):
        draw(["red"] * (number % 2), number).save(new / f"{number}.png")
    draw(["red"], 1).save(new / "7.png")  # the same once more
    found = learner.suggest(new, 7)
    assert sorted(each.picture for each in found) == sorted(map(str, new.iterdir()))
    scores = learner.scores([each.picture for each in found])
    thresholds = torch.tensor(list(learner.thresholds.values()))
    bits = torch.distributions.Bernoulli(logits=scores.logit() - thresholds.logit()).entropy()
    assert bits[0].sum() == bits.sum(1).max(), "the least certain one comes first"
    last = [each.picture for each in found[-2:]]
    assert any(str(new / name) in last for name in ("1.png", "7.png")), "a copy tells nothing new"


def test_a_precision_is_kept(month, small):
    learner = small(precision=1.0)
    learner.learn(month("march", ["red", "green"], count=40))
    assert all(quality.precision == 1.0 for quality in learner.lessons[0].qualities)


def test_kinds_of_pictures(month, small):
    table = month("march", ["red", "green"])
    learner = small()
    learner.learn(table)
    file = table.parent / "march3.png"
    picture = Image.open(file)
    answers = [learner.predict(given) for given in (file, picture, np.asarray(picture))]
    assert answers[0] == answers[1] == answers[2]
    assert learner.predict([file, picture])["picture 1"] == pytest.approx(answers[0])
    assert len(learner.predict(table.parent)) == 24
    with pytest.raises(RebllError, match="no picture"):
        learner.predict(table.parent / "nowhere.png")


def test_a_prediction_needs_no_avalanche(month, small, tmp_path):
    learner = small()
    table = month("march", ["red", "green"])
    learner.learn(table)
    file = learner.save(tmp_path / "city.rebll")
    code = (
        "import sys; from rebll_avalanche import Learner\n"
        f"print(Learner.load({str(file)!r}).predict({str(table.parent / 'march0.png')!r}))\n"
        "assert not {'avalanche', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
