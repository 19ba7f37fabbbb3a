"""An experience learnt in closed form beside the forward pass that every method needs."""

from __future__ import annotations

import torch
from comparison import Row, seconds, turn_by_turn

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.models import build_model
from rebll_avalanche.models.expanded import ExpandedLinear
from rebll_avalanche.strategies.closed_form import ClosedForm

CLASSES = 5


def rows(
    backbone: str = "tf_efficientnet_lite0",
    side: int = 224,
    images: int = 768,
    batch: int = 8,
    rounds: int = 3,
) -> list[Row]:
    """Sums, the choice of the penalty, the solve and the calibration, all included.

    Args:
        backbone: Of the network.
        side: Of the images, which are random.
        images: Fewer than most experiences of VOC have, so that what is paid once weighs as it does there.
        batch: Small, because one thread is fastest with activations that stay in its cache.
        rounds: See :func:`comparison.turn_by_turn`.
    """
    pictures = torch.rand(images, 3, side, side)
    labels = torch.eye(CLASSES).repeat(images // CLASSES + 1, 1)[:images]
    benchmark = multilabel_benchmark((pictures, labels), (pictures, labels), f"B{CLASSES}-C0")
    model = build_model(backbone)
    model.head = ExpandedLinear(model.head.in_features)

    @torch.inference_mode()
    def bare() -> None:
        model.eval()
        for part in pictures.split(batch):
            model.features(part)

    def learn() -> None:
        model.head = ExpandedLinear(model.head.in_features)
        strategy = ClosedForm(model=model, train_mb_size=batch, evaluator=None)
        strategy.train(benchmark.train_stream[0])

    taken = turn_by_turn(rounds, ours=seconds(learn), bare=seconds(bare))
    per_image = {name: 1000 * value / images for name, value in taken.items()}
    what = f"closed form, an experience of {images} images ({backbone}, {side} px), per image"
    return [Row(what, per_image["ours"], per_image["bare"], times=1.1)]
