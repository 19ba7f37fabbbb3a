"""Spaces of a search, written on the command line."""

from __future__ import annotations

import pytest

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.space import Choice, parse_space


@pytest.mark.parametrize(
    ("text", "choice", "whole"),
    [
        ("training.lr=1e-4..1e-2:log", Choice((1e-4, 1e-2), between=True, log=True), False),
        ("training.lr=1..2", Choice((1.0, 2.0), between=True), False),
        ("training.lr=0.5..1.5", Choice((0.5, 1.5), between=True), False),
        ("training.epochs=2..20", Choice((2, 20), between=True), True),
        ("training.batch_size=16,32", Choice((16, 32)), True),
        ("model.bn_mode=train, frozen", Choice(("train", "frozen")), False),
        ("training.decay_head=true,false", Choice((True, False)), True),
    ],
)
def test_ranges_and_lists(text: str, choice: Choice, whole: bool) -> None:
    (found,) = parse_space([text], Config()).values()
    assert (found, found.whole) == (choice, whole)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["training.lr"], "must look like SETTING="),
        (["training.lrr=1..2"], "nearest are training.lr"),
        (["training.lr=2..1"], "begin below its end"),
        (["training.lr=0..1:log"], "above 0"),
        (["training.lr=0.1"], "at least two different values"),
        (["training.lr=0.1,0.1"], "at least two different values"),
        (["training.lr=-1..1"], r"at least 0, got -1\.0"),
        (["training.epochs=1..2.5"], "must be int"),
        (["model.bn_mode=1..2"], "choose"),
        (["model.backbone=1..2"], "takes words"),
        (["benchmark.scenario=B5-C3,B4-C2"], "no longer be comparable"),
        (["evaluation.stream=test,valid"], "no longer be comparable"),
        (["seed=0..5"], "no longer be comparable"),
        (["training.lr=1..2", "training.lr=1..3"], "twice"),
    ],
)
def test_what_cannot_be_meant_is_refused(texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_space(texts, Config())
