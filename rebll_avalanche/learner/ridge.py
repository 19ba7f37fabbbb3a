"""The closed form inside a learner's state, read and changed without training."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.closed_form.records import NOT_GIVEN, ImageRecords
from rebll_avalanche.errors import RebllError
from rebll_avalanche.labels import UNKNOWN

# Key of the plugin's state in a captured strategy.
PLUGIN = "ClosedFormPlugin-0"


def ridge_of(taught: dict[str, Any]) -> RidgeLearner:
    """A copy of the closed form in a captured state."""
    state = taught["strategy"]["plugins"][PLUGIN]
    ridge = RidgeLearner(len(state["sums"]["gram"]) - 1, **taught["ridge"])
    ridge.load_state_dict(state)
    return ridge


def with_ridge(taught: dict[str, Any], ridge: RidgeLearner) -> dict[str, Any]:
    """The captured state with a changed closed form and the head solved from it."""
    scores = ridge.solve()
    strategy = taught["strategy"]
    head = {"head.weight": scores.weight.T.float(), "head.bias": scores.bias.float()}
    changed = {
        "model": strategy["model"] | head,
        "plugins": strategy["plugins"] | {PLUGIN: ridge.state_dict()},
    }
    return taught | {"strategy": strategy | changed}


def records_of(ridge: RidgeLearner, purpose: str) -> ImageRecords:
    """The records of single pictures.

    Raises:
        RebllError: When vectors are not kept.
    """
    if ridge.records is None or not ridge.records.keeps_vectors:
        raise RebllError(f"{purpose} needs the vectors of all pictures: Learner(keep='vectors')")
    return ridge.records


def left_out(ridge: RidgeLearner, keys: list[int] | None = None) -> tuple[Tensor, Tensor]:
    """Leave-one-out probabilities, and the given labels.

    Args:
        ridge: A closed form that keeps vectors.
        keys: The pictures; all by default.
    """
    records = records_of(ridge, "scoring pictures without themselves")
    rows = slice(None) if keys is None else records.known_rows(keys)
    labels = records.labels[rows].float()
    labels = labels.masked_fill(labels == NOT_GIVEN, UNKNOWN)
    return ridge.left_out_scores(keys).sigmoid().float(), labels
