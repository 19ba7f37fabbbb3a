"""Months of real pictures: old folders deleted, wrong labels corrected, beside all data at once."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from rebll_avalanche import Learner, read_table

SIZE = 96  # the figures of full-size pictures are in benchmarks/results
OLD, NEW = 8, 3


@pytest.fixture(scope="module")
def learner() -> Learner:
    """For its backbone."""
    return Learner(image_size=SIZE)


def fresh(learner: Learner) -> Learner:
    other = Learner(image_size=SIZE)
    other._features, other._backbone_hash = learner.features, learner.features.weights_hash()
    return other


def write(folder: Path, images, labels, names) -> Path:
    folder.mkdir()
    for image in images:
        shutil.copy(image, folder)
    with (folder / "labels.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["file", *names])
        for image, given in zip(images, labels.astype(int).tolist(), strict=True):
            writer.writerow([Path(image).name, *given])
    return folder / "labels.csv"


def test_the_months(voc_root, learner, tmp_path):
    table = read_table(voc_root / "VOCdevkit" / "VOC2007")
    truth, random = np.nan_to_num(table.labels), np.random.default_rng(0)
    left = random.permutation(len(table)).tolist()

    def take(columns, count):
        rows = [row for row in left if truth[row, columns].any()][:count]
        left[:] = [row for row in left if row not in set(rows)]
        return rows

    def of(rows, columns):
        return [table.images[row] for row in rows], truth[np.ix_(rows, columns)]

    old, new = list(range(OLD)), list(range(OLD, OLD + NEW))
    names = table.class_names
    held_out, march = take([*old, *new], 120), take(old, 140)
    april, may = take(new, 60), take(old, 50)
    ours = fresh(learner)

    images, right = of(march, old)
    spoiled = random.choice(len(march), 10, replace=False)
    wrong = right.copy()
    for row in spoiled:
        column = random.integers(OLD)
        wrong[row, column] = 1 - wrong[row, column]
    lessons = [(images, wrong, old), (*of(april, new), new), (*of(may, old), old)]
    for number, (pictures, labels, columns) in enumerate(lessons):
        place = tmp_path / f"month{number}"
        ours.learn(write(place, pictures, labels, [names[column] for column in columns]))
        shutil.rmtree(place)
    corrections = write(tmp_path / "right", [], right[:0], [names[column] for column in old])
    with corrections.open("a", newline="") as stream:
        for row in spoiled:
            csv.writer(stream).writerow([Path(images[row]).name, *right[row].astype(int)])
    changed = ours.correct(corrections)
    assert sum(changed.changed.values()) == 10

    file = ours.save(tmp_path / "city.rebll")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copy = Learner.load(shutil.move(file, elsewhere))
    assert copy.class_names == names[: OLD + NEW]
    known = list(names[: OLD + NEW])
    found = copy.evaluate(of(held_out, [*old, *new]), class_names=known)
    assert found.learned_pictures == 0

    at_once = fresh(learner)
    at_once.learn(of([*march, *april, *may], [*old, *new]), class_names=known)
    ceiling = at_once.evaluate(of(held_out, [*old, *new]), class_names=known)
    assert ceiling.mean_average_precision > 0.6
    # One point holds for 400 pictures (see the figures); few pictures make more noise.
    assert found.mean_average_precision > ceiling.mean_average_precision - 0.03
