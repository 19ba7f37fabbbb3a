"""Policies of the closed form for unannotated labels, in four kinds of streams, on held-out training images.

Vectors of VOC's trainval pictures are computed once; half of the pictures, drawn by seed, are held out and
scored. Test images are never read. One row per stream, policy, scenario and seed:

    python benchmarks/streams/closed_form.py --root DATA/voc2007_small --features FOLDER --csv rows.csv
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.benchmarks import streams
from rebll_avalanche.benchmarks.features import FrozenFeatures
from rebll_avalanche.benchmarks.voc import VOC_CLASSES, read_voc
from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.metrics.functional import decisions, mean_average_precision
from rebll_avalanche.scenario import Scenario

KINDS = ("overlap", "disjoint", "once", "repetition")
# Number of experiences without a new class at the end of a stream with repetition.
MORE = 4
POLICIES: dict[str, dict[str, Any]] = {
    "auto": {},
    "negative": {"unknown": "negative"},
    "shrunk 0.4": {"unknown": "shrunk", "shrink": 0.4},
    "shrunk 0.5": {"unknown": "shrunk"},
    "shrunk 0.7": {"unknown": "shrunk", "shrink": 0.7},
    "own score": {"unknown": "shrunk", "shrink": 1.0},
    "soft": {"unknown": "soft"},
    "hard 0.9": {"unknown": "hard", "threshold": 0.9},
}
COLUMNS = ("scenario", "stream", "policy", "seed", "last", "average", "of_joint", "CF1", "OF1", "s")


def vectors_and_labels(root: Path, folder: Path) -> tuple[Tensor, Tensor]:
    """Square roots of pooled features, as the expanded head sees them, and labels by class name."""
    table = read_voc(root, "2007", "trainval", VOC_CLASSES)
    maker = FrozenFeatures("tf_efficientnet_lite0", image_size=288, keep_aspect=True, folder=folder)
    order = sorted(range(len(VOC_CLASSES)), key=lambda column: VOC_CLASSES[column])
    return maker(table.files).clamp(min=0).sqrt(), torch.as_tensor(table.labels).float()[:, order]


def stream(labels: Tensor, name: str, kind: str, seed: int) -> list[tuple[Tensor, Tensor, int]]:
    """For each experience: its rows, their labels with NaN, and the number of classes seen so far."""
    scenario = Scenario.parse(name, labels.shape[1])
    positives = labels == 1
    if kind == "repetition":
        scenario = Scenario((*scenario.sizes, *[0] * MORE), scenario.class_order)
        parts = streams.repetition(positives, scenario, chance=0.5, images=None, seed=seed)
    elif kind == "once":
        parts = streams.once(positives, scenario, seed)
    else:
        parts = {"overlap": streams.overlap, "disjoint": streams.disjoint}[kind](
            positives, scenario
        )
    lessons = []
    for (rows, columns), (_, seen) in zip(parts, scenario.ranges, strict=True):
        given = torch.full((len(rows), seen), torch.nan)
        given[:, columns] = labels[rows][:, columns]
        lessons.append((rows, given, seen))
    return lessons


def scored(learner: RidgeLearner, vectors: Tensor, labels: Tensor, seen: int) -> tuple[float, Any]:
    """mAP and decisions at 0.8 on images that have a class seen by then."""
    rows = (labels[:, :seen] == 1).any(1)
    probability = learner.solve()(vectors[rows]).sigmoid()
    truth = labels[rows, :seen]
    return 100 * mean_average_precision(probability, truth), decisions(probability, truth, 0.8)


def measured(
    vectors: Tensor, labels: Tensor, held_out: Tensor, lessons: Any, options: dict[str, Any]
) -> dict[str, float]:
    """Teach one learner a whole stream, and measure it."""
    learner, history = RidgeLearner(vectors.shape[1], **options), []
    begin = time.perf_counter()
    for rows, given, seen in lessons:
        learner.learn(vectors[~held_out][rows], given, rows.tolist())
        history.append(scored(learner, vectors[held_out], labels[held_out], seen))
    at_threshold = history[-1][1]
    return {
        "last": history[-1][0],
        "average": sum(value for value, _ in history) / len(history),
        "CF1": 100 * at_threshold.class_f1,
        "OF1": 100 * at_threshold.overall_f1,
        "s": time.perf_counter() - begin,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True, help="where vectors are kept")
    parser.add_argument("--csv", type=Path, required=True, help="rows are appended")
    parser.add_argument("--scenarios", nargs="+", default=["B5-C3"])
    parser.add_argument("--streams", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    given = parser.parse_args()
    torch.set_num_threads(1)
    vectors, labels = vectors_and_labels(given.root, given.features)
    new = not given.csv.is_file()
    with given.csv.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        for seed in given.seeds:
            generator = torch.Generator().manual_seed(seed)
            held_out = torch.zeros(len(labels), dtype=torch.bool)
            held_out[torch.randperm(len(labels), generator=generator)[: len(labels) // 2]] = True
            known = labels[~held_out]
            everything = [(torch.arange(len(known)), known, labels.shape[1])]
            joint = measured(vectors, labels, held_out, everything, {})
            writer.writerow(
                _rounded(joint) | {"policy": "Joint", "seed": seed, "of_joint": "1.0000"}
            )
            for scenario in given.scenarios:
                for kind in given.streams:
                    lessons = stream(known, scenario, kind, seed)
                    for policy in given.policies:
                        row = measured(vectors, labels, held_out, lessons, POLICIES[policy])
                        writer.writerow(
                            {"scenario": scenario, "stream": kind, "policy": policy, "seed": seed}
                            | {"of_joint": f"{row['last'] / joint['last']:.4f}"}
                            | _rounded(row)
                        )
                        file.flush()


def _rounded(row: dict[str, float]) -> dict[str, str]:
    return {name: f"{value:.2f}" for name, value in row.items()}


if __name__ == "__main__":
    main()
