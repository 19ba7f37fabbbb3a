"""The metrics themselves beside what else computes them; `metrics.py` compares their values too."""

from __future__ import annotations

from comparison import Row, seconds, turn_by_turn
from metrics import our_map, our_metrics, scikit_learn_loop, synthetic_scores, torchmetrics_map


def rows(samples: int = 40_504, classes: int = 80, rounds: int = 3) -> list[Row]:
    """All metrics of a test set of COCO's size."""
    data = synthetic_scores(samples, classes)
    taken = turn_by_turn(
        rounds,
        ours=seconds(lambda: our_metrics(*data)),
        loop=seconds(lambda: scikit_learn_loop(*data)),
        our_map=seconds(lambda: our_map(*data)),
        their_map=seconds(lambda: torchmetrics_map(*data)),
    )
    return [
        Row("all metrics, 40,504 x 80 / scikit-learn loop", taken["ours"], taken["loop"], "s", times=0.1),
        Row("mAP alone / torchmetrics", taken["our_map"], taken["their_map"], "s", times=1 / 3),
    ]  # fmt: skip
