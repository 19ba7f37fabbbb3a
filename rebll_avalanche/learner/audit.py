"""Active learning and label errors: pictures to label next, and labels that are probably wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from rebll_avalanche.labels import annotated

# In bits: classes to ask about have at least this entropy.
WORTH_ASKING = 0.5


@dataclass(frozen=True)
class Suggestion:
    """A picture that is worth labelling.

    Attributes:
        picture: Its name.
        classes: The classes to check, most uncertain first.
        uncertainty: Sum over all classes of the entropy, in bits.
    """

    picture: str
    classes: tuple[str, ...]
    uncertainty: float


@dataclass(frozen=True)
class Suspect:
    """A label that is probably wrong.

    Attributes:
        picture: Its name.
        name: The class.
        present: What the label says.
        probability: That the class is present, by a head that had not learned from the picture.
        contradiction: Distance of the probability beyond the threshold, in log-odds.
        key: The picture's unique number.
    """

    picture: str
    name: str
    present: bool
    probability: float
    contradiction: float
    key: int


def suggestions(
    names: Sequence[str],
    vectors: Tensor,
    scores: Tensor,
    thresholds: Tensor,
    class_names: Sequence[str],
    count: int,
) -> list[Suggestion]:
    """Uncertain pictures that differ from each other.

    Chosen greedily by uncertainty, which is reduced for pictures similar to those already chosen.

    Args:
        names: Of the pictures.
        vectors: ``[pictures, features]``.
        scores: Probabilities ``[pictures, classes]``.
        thresholds: Per class; a probability equal to its threshold is the most uncertain.
        class_names: Of the columns.
        count: Maximum number.
    """
    uncertainty = _bits((_log_odds(scores) - _log_odds(thresholds)).sigmoid())
    total = uncertainty.sum(1)
    directions = normalize(vectors - vectors.mean(0), dim=1)
    resemblance = torch.zeros(len(names))
    left = torch.ones(len(names), dtype=torch.bool)
    found = []
    for _ in range(min(count, len(names))):
        worth = (total * (1 - resemblance)).masked_fill(~left, -1.0)
        row = int(worth.argmax())
        left[row] = False
        resemblance = torch.maximum(resemblance, directions @ directions[row]).clamp(0, 1)
        order = uncertainty[row].argsort(descending=True).tolist()
        asked = [class_names[c] for c in order if uncertainty[row, c] >= WORTH_ASKING]
        asked = asked or [class_names[order[0]]]
        found.append(Suggestion(names[row], tuple(asked), round(float(total[row]), 4)))
    return found


def suspects(
    names: Sequence[str],
    keys: Sequence[int],
    scores: Tensor,
    labels: Tensor,
    thresholds: Tensor,
    class_names: Sequence[str],
    count: int | None,
) -> list[Suspect]:
    """Labels that a threshold contradicts, the strongest contradiction first.

    Args:
        names: Of the pictures.
        keys: Their unique numbers.
        scores: Probabilities ``[pictures, classes]`` by heads that had not learned from the picture.
        labels: 1, 0 and NaN.
        thresholds: Per class.
        class_names: Of the columns.
        count: Maximum number; all if ``None``.
    """
    beyond = _log_odds(scores) - _log_odds(thresholds)
    against = torch.where(labels == 1, -beyond, beyond)
    against = against.masked_fill(~annotated(labels), 0.0)
    rows, columns = (against > 0).nonzero(as_tuple=True)
    order = against[rows, columns].argsort(descending=True, stable=True)[:count]
    return [
        Suspect(
            picture=names[row],
            name=class_names[column],
            present=bool(labels[row, column] == 1),
            probability=round(float(scores[row, column]), 4),
            contradiction=round(float(against[row, column]), 4),
            key=keys[row],
        )
        for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True)
    ]


def _log_odds(probabilities: Tensor) -> Tensor:
    return probabilities.clamp(1e-6, 1 - 1e-6).logit()


def _bits(probabilities: Tensor) -> Tensor:
    """Binary entropy."""
    p = probabilities.clamp(1e-9, 1 - 1e-9)
    return -(p * p.log2() + (1 - p) * (1 - p).log2())
