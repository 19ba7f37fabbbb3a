"""How fast the metrics are on the size of the COCO 2014 test set, against scikit-learn and torchmetrics.

Run ``python benchmarks/speed/metrics.py``. All contestants see the same scores in the same process, turn
by turn; medians are compared, and so are the values.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_fscore_support,
)
from torchmetrics.classification import MultilabelAveragePrecision

from rebll_avalanche.metrics.functional import mean_average_precision, multilabel_scores

THRESHOLDS = (0.8, 0.5)
TOLERANCE = 1e-6


def synthetic_scores(
    samples: int, classes: int, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities and labels with COCO's share of positives, about 3.6 % on average."""
    generator = torch.Generator().manual_seed(seed)
    share = 0.072 * torch.rand(classes, generator=generator)
    truth = (torch.rand(samples, classes, generator=generator) < share).float()
    logits = 1.5 * torch.randn(samples, classes, generator=generator) - 3 + 3 * truth
    return logits.sigmoid(), truth


def scikit_learn_loop(scores: torch.Tensor, truth: torch.Tensor) -> dict[str, float]:
    """Every metric, one class after the other, with as few calls of scikit-learn as will do."""
    score_columns, truth_columns = scores.T.numpy().copy(), truth.T.numpy().astype(int)
    classes = list(zip(truth_columns, score_columns, strict=True))
    values = {"mAP": float(np.mean([average_precision_score(y, s) for y, s in classes]))}
    for threshold in THRESHOLDS:
        per_class, counts = [], np.zeros((2, 2))
        for y, s in classes:
            decided = s > threshold
            per_class.append(
                precision_recall_fscore_support(y, decided, average="binary", zero_division=0)[:3]
            )
            counts += confusion_matrix(y, decided, labels=[0, 1])
        (tn, fp), (fn, tp) = counts
        means = dict(zip(("CP", "CR", "CF1"), np.mean(per_class, axis=0), strict=True))
        means |= {"OP": tp / (tp + fp), "OR": tp / (tp + fn)}
        means |= {"OF1": 2 * tp / (2 * tp + fp + fn), "FPR": fp / (fp + tn)}
        values |= {f"{name}@{threshold:g}": float(value) for name, value in means.items()}
    return values


def torchmetrics_map(scores: torch.Tensor, truth: torch.Tensor) -> dict[str, float]:
    """mAP alone, without torchmetrics' checks of its input."""
    metric = MultilabelAveragePrecision(scores.shape[1], average="macro", validate_args=False)
    metric.update(scores, truth.long())
    return {"mAP": float(metric.compute())}


def our_metrics(scores: torch.Tensor, truth: torch.Tensor) -> dict[str, float]:
    """Every metric in one go."""
    return multilabel_scores(scores, truth, THRESHOLDS).as_dict()


def our_map(scores: torch.Tensor, truth: torch.Tensor) -> dict[str, float]:
    """mAP alone."""
    return {"mAP": mean_average_precision(scores, truth)}


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=40_504)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--repetitions", type=int, default=5)
    # Both sides go class by class; more threads would only let the load of the machine into the ratio.
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    scores, truth = synthetic_scores(arguments.samples, arguments.classes)
    contestants: dict[str, Callable[[torch.Tensor, torch.Tensor], dict[str, float]]] = {
        "all metrics, this package": our_metrics,
        "all metrics, scikit-learn loop": scikit_learn_loop,
        "mAP, this package": our_map,
        "mAP, torchmetrics": torchmetrics_map,
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    values = {name: contestant(scores, truth) for name, contestant in contestants.items()}
    for _ in range(arguments.repetitions):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            contestant(scores, truth)
            seconds[name].append(time.perf_counter() - start)

    print(f"{arguments.samples} x {arguments.classes} scores, {arguments.threads} thread(s)")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"  {name:32s} {median:8.3f} s")
    pairs = [
        ("all metrics, this package", "all metrics, scikit-learn loop", 10),
        ("mAP, this package", "mAP, torchmetrics", 3),
    ]
    for ours, theirs, target in pairs:
        ratio = medians[theirs] / medians[ours]
        difference = max(abs(values[ours][name] - values[theirs][name]) for name in values[theirs])
        print(
            f"{theirs}: {ratio:.1f} times our time (target {target}), values differ by {difference:.1e}"
        )
        if difference > TOLERANCE:
            raise SystemExit(f"values differ by more than {TOLERANCE}")


if __name__ == "__main__":
    main()
