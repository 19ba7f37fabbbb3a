"""What the machine could do at most, and the share that networks get: `python benchmarks/speed/roofline.py`.

The peak of arithmetic is that of a large matrix product, the peak of memory that of copying a large array;
both are measured here, with one thread. A pass can take no less than its FLOPs at the one and its bytes at
the other.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from comparison import seconds, turn_by_turn
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from rebll_avalanche import build_model, keep_freed_memory
from rebll_avalanche.models.fused import ACTIVATIONS
from rebll_avalanche.models.linear import _product, onednn_is_faster

ROUNDS = 5
# Parts of the preceding convolution in evaluation (`models/folded.py`).
FOLDED = (torch.nn.BatchNorm2d, *ACTIVATIONS)
NETWORKS = [
    ("tf_efficientnet_lite0", 96, 32),
    ("tf_efficientnet_lite0", 224, 8),
    ("resnet18", 224, 8),
    ("vit_small_patch16_224", 224, 8),
]


def peaks() -> tuple[float, float]:
    """FLOP and bytes a second."""
    side, numbers = 1024, 1 << 25
    a, b = torch.rand(side, side), torch.rand(side, side)
    # MKL, which torch uses for products, leaves half of an AMD processor's arithmetic unused.
    product = _product if onednn_is_faster() else torch.matmul
    source, target = torch.rand(numbers), torch.empty(numbers)
    taken = turn_by_turn(
        ROUNDS, product=seconds(lambda: product(a, b)), copy=seconds(lambda: target.copy_(source))
    )
    return 2 * side**3 / taken["product"].min(), 2 * 4 * numbers / taken["copy"].min()


class Maps:
    """Counts the bytes of what every layer reads and writes, as if nothing stayed in a cache.

    Attributes:
        count: Of all layers, and of those that are left where norms and activations are folded.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.count = {"evaluation": 0, "training": 0}
        for module in model.modules():
            if not list(module.children()):
                module.register_forward_hook(self._note)

    def _note(self, module: torch.nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        moved = [*given, output, *module.parameters()]
        found = sum(4 * t.numel() for t in moved if isinstance(t, Tensor))
        self.count["training"] += found
        if not isinstance(module, FOLDED):
            self.count["evaluation"] += found


def needs(backbone: str, images: Tensor) -> tuple[int, dict[str, int]]:
    """FLOPs of a forward pass, and its bytes in evaluation and in training."""
    model = build_model(backbone).eval()
    model.head.grow(20)
    maps = Maps(model)
    quick = {torch.ops.mkldnn._linear_pointwise: _linear_flops}
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=quick) as counter:
        model(images)
    return counter.get_total_flops(), maps.count


def _linear_flops(rows: Any, weight: Any, *_: Any, **__: Any) -> int:
    """Of ``models/linear.py``'s operator, which torch does not count."""
    return 2 * int(rows[0]) * int(rows[1]) * int(weight[0])


def passes(backbone: str, images: Tensor) -> dict[str, Callable[[], None]]:
    """A forward pass without gradients, and one with the backward pass."""
    model = build_model(backbone)
    model.head.grow(20)

    def train() -> None:
        model.train().zero_grad()
        model(images).square().mean().backward()

    inference = build_model(backbone).eval()
    inference.head.grow(20)

    @torch.inference_mode()
    def answer() -> None:
        inference(images)

    return {"evaluation": answer, "training": train}


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    keep_freed_memory()
    flops, bytes_ = peaks()
    print(f"peak: {flops / 1e9:.0f} GFLOP/s, {bytes_ / 1e9:.1f} GB/s, one thread\n")
    print("| network | pass | GFLOP | MB | least ms | ms | share |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for backbone, side, batch in NETWORKS:
        images = torch.rand(batch, 3, side, side)
        work, moved = needs(backbone, images)
        taken = turn_by_turn(ROUNDS, **{k: seconds(v) for k, v in passes(backbone, images).items()})
        for name, times in taken.items():
            # A backward pass has two products for every one of the forward pass.
            factor = 3 if name == "training" else 1
            least = factor * max(work / flops, moved[name] / bytes_)
            print(
                f"| {backbone}, {side} px, batch {batch} | {name} | {factor * work / 1e9:.1f} | "
                f"{factor * moved[name] / 1e6:.0f} | {1000 * least:.0f} | {1000 * np.median(times):.0f} | "
                f"{least / np.median(times):.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
