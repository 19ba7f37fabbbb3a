"""What closed-form learning costs beyond the forward pass that every method needs.

    python benchmarks/speed/closed_form.py --backbone tf_efficientnet_lite0 --images 512

Prints milliseconds per image of a bare forward pass, of the strategy's pass with its sums, seconds of
the solve with its choice of the penalty and its calibration, and the ratio of the whole experience to
the bare pass. All of it is processor time, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import time

import torch

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.models import build_model
from rebll_avalanche.models.expanded import ExpandedLinear
from rebll_avalanche.strategies.closed_form import ClosedForm


def main() -> None:
    """Time one experience of random images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()

    side = arguments.image_size
    images = torch.rand(arguments.images, 3, side, side)
    labels = torch.eye(5).repeat(arguments.images // 5 + 1, 1)[: arguments.images]
    benchmark = multilabel_benchmark((images, labels), (images, labels), "B5-C0")
    data = benchmark.train_stream[0].dataset.eval()
    bare, whole = [], []
    for _ in range(arguments.repeats):
        model = build_model(arguments.backbone).eval()
        model.head = ExpandedLinear(model.head.in_features)
        loader = torch.utils.data.DataLoader(data, batch_size=arguments.batch)
        start = time.process_time()
        with torch.no_grad():
            for batch, _ in loader:
                model.features(batch)
        bare.append(time.process_time() - start)
        strategy = ClosedForm(model=model, train_mb_size=arguments.batch, evaluator=None)
        start = time.process_time()
        strategy.train(benchmark.train_stream[0])
        whole.append(time.process_time() - start)
    start = time.process_time()
    strategy.closed_form.scores()
    solve = time.process_time() - start
    per_image = 1000 / arguments.images
    print(f"bare forward pass   {min(bare) * per_image:7.2f} ms per image")
    print(f"closed form         {min(whole) * per_image:7.2f} ms per image, all included")
    print(f"of which the solve  {solve:7.2f} s per experience")
    print(f"ratio               {min(whole) / min(bare):7.3f}")


if __name__ == "__main__":
    main()
