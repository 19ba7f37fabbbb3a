"""Learners that train their network from pictures, and keep some of these in memory."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch

from rebll_avalanche import METHODS, Learner
from rebll_avalanche.benchmarks.transforms import resize
from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner.methods import REFUSED
from rebll_avalanche.picture_store import PictureStore, most_bytes, training_picture
from rebll_avalanche.pictures import decode_picture

TRAINING = {"epochs": 2, "batch_size": 8, "lr": 0.002, "device": "cpu", "tuning": "off"}


def trained(method: str = "rebll", **options) -> Learner:
    """A learner of a small network."""
    if METHODS[method].uses_memory:
        options.setdefault("mem_size", 6)
    return Learner(
        method=method,
        backbone="small_cnn",
        pretrained=None,
        frozen=False,
        image_size=32,
        training=TRAINING,
        **options,
    )


def kept_pictures(learner: Learner) -> list[bytes]:
    """What memory holds, as in the file."""
    kept = learner._know.require_taught()["kept"].values()
    return [each for part in kept for each in PictureStore.from_dict(part).pictures.values()]


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(REFUSED)))
def test_every_method_goes_on_from_its_file(method, month, tmp_path, draw):
    learner = trained(method)
    for number, classes in enumerate([["red", "green"], ["blue", "red"], ["green"]]):
        table = month(f"month{number}", classes, count=12, seed=number)
        learner.learn(table)
        shutil.rmtree(table.parent)
        learner = Learner.load(learner.save(tmp_path / "city.rebll"))
    assert learner.class_names == ("green", "red", "blue")
    scores = learner.scores([draw(["red"], 1), draw(["blue"], 2)])
    assert scores.shape == (2, 3)
    assert bool(scores.isfinite().all())
    assert learner.thumbnail("month00.png") is not None
    learner.undo()
    assert not torch.equal(learner.scores([draw(["red"], 1), draw(["blue"], 2)]), scores)


@pytest.mark.parametrize("method", sorted(REFUSED))
def test_others_are_refused_by_name(method):
    with pytest.raises(RebllError, match=f"{re.escape(method)} cannot be a learner"):
        Learner(method=method, backbone="small_cnn", frozen=False)


def test_memory_holds_the_very_pictures_within_its_budget(month, tmp_path, draw):
    learner = trained()
    for number in range(3):
        learner.learn(month(f"month{number}", ["red", "green"], count=12, seed=number))
    kept = kept_pictures(learner)
    assert len(kept) == 6
    originals = {
        np.asarray(resize(decode_picture(file.read_bytes()), 32)).tobytes()
        for file in tmp_path.glob("month*/*.png")
    }
    assert {np.asarray(decode_picture(each)).tobytes() for each in kept} <= originals
    again = Learner.load(learner.save(tmp_path / "city.rebll"))
    assert kept_pictures(again) == kept
    assert b"month0" not in b"".join(kept)


def test_a_budget_in_megabytes(month, small):
    size = most_bytes(32 * 32)
    learner = trained(mem_size=f"{5.5 * size / 1e6} MB")
    learner.learn(month("march", ["red", "green"]))
    kept = kept_pictures(learner)
    assert len(kept) == 5
    assert sum(map(len, kept)) <= 5.5 * size
    vectors = small(method="rebll", mem_size="0.01 MB")
    assert vectors.config.method_options["mem_size"] == 10_000 // vectors.features.num_bytes
    with pytest.raises(RebllError, match="16 MB"):
        trained(mem_size="some")
    with pytest.raises(ValueError, match="mem_size"):
        trained("lwf", mem_size="1 MB")


def test_no_picture_is_larger_than_the_budget_counts(draw):
    noise = np.random.default_rng(0).integers(0, 256, (224, 224, 3)).astype(np.uint8)
    from PIL import Image

    for side in (20, 96, 97, 224):
        picture = Image.fromarray(noise[:side, :side])
        content = training_picture(picture)
        assert len(content) <= most_bytes(side * side)
        if side <= 96:
            assert decode_picture(content).tobytes() == picture.tobytes()


def test_it_learns_to_tell_classes_apart(month, tmp_path):
    learner = Learner(
        method="rebll",
        backbone="small_cnn",
        frozen=False,
        image_size=48,
        mem_size=40,
        training={"epochs": 30, "batch_size": 16, "device": "cpu", "tuning": "off"},
    )
    learner.learn(month("march", ["red", "green"], count=80))
    learner.learn(month("april", ["blue"], count=80, seed=1))
    exam = month("exam", ["red", "green", "blue"], count=80, seed=7)
    assert learner.evaluate(exam).mean_average_precision > 0.75
    assert len(learner.suggest(exam.parent, 5)) == 5
    name = learner.trained_model()
    from rebll_avalanche.pictures import read_picture

    picture = read_picture(exam.parent / "exam0.png")
    said = name.predict([picture])[0]
    assert said == pytest.approx(learner.ranked(picture)[0], abs=1e-5)
