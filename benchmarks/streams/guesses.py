"""How much better guesses of missing labels would help the closed form, on held-out training images.

A simplification of ``closed_form.py`` in which a guess is one function: one penalty, chosen on all labels, no
calibration, Last mAP as a share of Joint's. Some guesses use the hidden labels, as upper bounds:

    python benchmarks/streams/guesses.py --root DATA/voc2007_small --features FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from closed_form import stream, vectors_and_labels
from torch import Tensor

from rebll_avalanche.closed_form.ridge import LinearScores, RidgeSolver
from rebll_avalanche.closed_form.sums import RidgeSums
from rebll_avalanche.metrics.functional import mean_average_precision


@dataclass(frozen=True)
class Asked:
    """What a guess may use: scores of earlier classes in new images, and their hidden labels.

    Attributes:
        scores: ``[images, earlier classes]``.
        truth: Their hidden labels.
        left_out: Returns, for each of these classes, leave-one-out scores of its annotated positives.
    """

    scores: Tensor
    truth: Tensor
    left_out: Callable[[], list[Tensor]]

    def scaled_to(self, number: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
        """The scores times the factor per class that makes their sum this number."""
        return (number / self.scores.sum(0).clamp(min=1)).clamp(low, high) * self.scores

    def logistic(self, number: Tensor, slope: float = 8.0) -> Tensor:
        """A logistic curve of the score, moved until its sum is this number."""
        low = torch.full_like(number, -40.0)
        high = -low
        for _ in range(40):
            middle = (low + high) / 2
            above = (slope * self.scores + middle).sigmoid().sum(0) > number
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        return (slope * self.scores + low).sigmoid()

    def by_highest(self) -> Tensor:
        """How many images have each class, judged by those that score as high as its best positives."""
        found = []
        for scores, positives in zip(self.scores.T, self.left_out(), strict=True):
            shares = (0.5, 0.25, 0.1)
            bars = [positives.quantile(1 - share) for share in shares]
            counts = [float((scores > bar).sum()) / s for bar, s in zip(bars, shares, strict=True)]
            found.append(min(counts))
        return torch.tensor(found).to(self.scores)


GUESSES: dict[str, Callable[[Asked], Tensor]] = {
    "absent": lambda asked: 0 * asked.scores,
    "half the own score": lambda asked: asked.scores / 2,
    "0.45 of it": lambda asked: 0.45 * asked.scores,
    "0.55 of it": lambda asked: 0.55 * asked.scores,
    "true labels": lambda asked: asked.truth,
    "true number, scaled": lambda asked: asked.scaled_to(asked.truth.sum(0)),
    "true number, logistic": lambda asked: asked.logistic(asked.truth.sum(0)),
    "number by the highest, scaled": lambda asked: asked.scaled_to(asked.by_highest()),
    "the same, 0.3 to 0.7": lambda asked: asked.scaled_to(asked.by_highest(), 0.3, 0.7),
}


class Split:
    """Half of the images to learn, half to score."""

    def __init__(self, vectors: Tensor, labels: Tensor, seed: int) -> None:
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        held_out = torch.zeros(len(labels), dtype=torch.bool)
        held_out[order[: len(labels) // 2]] = True
        self.vectors, self.labels = vectors[~held_out], labels[~held_out]
        self.tested, self.truth = vectors[held_out], labels[held_out]
        everything = RidgeSums(vectors.shape[1], labels.shape[1])
        everything.add(self.vectors, self.labels)
        solver = RidgeSolver(everything)
        self.penalty = float(solver.choose_gamma()[0])
        self.joint = self.mean_ap(solver.solve(self.penalty))

    def mean_ap(self, head: LinearScores) -> float:
        """Of all classes, on images that have any."""
        rows = (self.truth == 1).any(1)
        return float(mean_average_precision(head(self.tested[rows]).float(), self.truth[rows]))

    def share(self, scenario: str, kind: str, seed: int, guess: Callable[[Asked], Tensor]) -> float:
        """Of Joint's mAP, after all experiences of a stream."""
        sums = RidgeSums(self.vectors.shape[1])
        learned, counted, given_labels = [], [], []
        for rows, given, seen in stream(self.labels, scenario, kind, seed):
            vectors, earlier = self.vectors[rows], sums.num_classes
            targets = given.nan_to_num(0.0).double()
            if earlier:
                solver = RidgeSolver(sums)
                head = solver.solve(self.penalty)

                def left_out(
                    solver: RidgeSolver = solver, head: LinearScores = head
                ) -> list[Tensor]:
                    so_far = wide(counted, len(head.bias))
                    found = solver.left_out(head, self.penalty, torch.cat(learned), so_far)
                    positive = wide(given_labels, len(head.bias)) == 1
                    return [column[rows] for column, rows in zip(found.T, positive.T, strict=True)]

                truth = self.labels[rows][:, :earlier].double()
                guessed = guess(Asked(head(vectors), truth, left_out))
                unknown = given[:, :earlier].isnan()
                targets[:, :earlier] = torch.where(unknown, guessed, targets[:, :earlier])
            sums.grow(seen)
            sums.add(vectors, targets)
            learned.append(vectors)
            counted.append(targets)
            given_labels.append(given)
        return self.mean_ap(RidgeSolver(sums).solve(self.penalty)) / self.joint


def wide(parts: list[Tensor], classes: int) -> Tensor:
    """Targets of all experiences; classes that came later are absent."""
    return torch.cat([torch.nn.functional.pad(p, (0, classes - p.shape[1])) for p in parts])


def main() -> None:
    """Print a row per guess."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True, help="where vectors are kept")
    parser.add_argument("--scenario", default="B4-C2")
    parser.add_argument("--streams", nargs="+", default=["once", "disjoint"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    given = parser.parse_args()
    torch.set_num_threads(1)
    vectors, labels = vectors_and_labels(given.root, given.features)
    splits = {seed: Split(vectors, labels, seed) for seed in given.seeds}
    for name, guess in GUESSES.items():
        cells = []
        for kind in given.streams:
            found = [split.share(given.scenario, kind, s, guess) for s, split in splits.items()]
            cells.append(f"{kind} " + ", ".join(f"{share:.3f}" for share in found))
        print(f"{name}: {'; '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
