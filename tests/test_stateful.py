"""What checkpoints keep of an object."""

from __future__ import annotations

import pytest
import torch

from rebll_avalanche.stateful import Stateful


class Part(Stateful):
    stored = ("counts", "images")

    def __init__(self) -> None:
        self.counts = torch.zeros(2)
        self.images = 0


class Whole(Stateful):
    stored = ("part", "terms")

    def __init__(self) -> None:
        self.part = Part()
        self.terms: dict[str, list[float]] = {}


def test_parts_come_back_as_copies():
    one, other = Whole(), Whole()
    one.part.counts[0], one.part.images, one.terms = 3, 4, {"cls": [0.5]}
    state = one.state_dict()
    assert set(state) == {"part", "terms"}
    assert set(state["part"]) == {"counts", "images"}
    other.load_state_dict(state)
    one.part.counts[1], one.terms["cls"][0] = 9, 9.0
    assert other.part.counts.tolist() == [3, 0]
    assert (other.part.images, other.terms) == (4, {"cls": [0.5]})


@pytest.mark.parametrize(
    "state",
    [
        {"counts": torch.zeros(2)},
        {"counts": "many", "images": 1},
        {"counts": torch.zeros(2), "images": [1]},
    ],
)
def test_a_state_of_another_form_is_refused(state):
    with pytest.raises((KeyError, AttributeError, TypeError)):
        Part().load_state_dict(state)
