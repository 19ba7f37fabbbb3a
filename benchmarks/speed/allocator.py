"""What it is worth to keep freed memory: forward and training passes, with and without.

    python benchmarks/speed/allocator.py

The setting holds for a whole process, so each pass is measured in processes that take turns.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from comparison import peak_memory

CASES = [
    ("small_cnn", 48, 256),
    ("tf_efficientnet_lite0", 96, 64),
    ("tf_efficientnet_lite0", 224, 32),
    ("tf_efficientnet_lite2", 260, 16),
]
ROUNDS, PASSES = 3, 3


def _measure(choice: str, backbone: str, side: int, batch: int) -> None:
    """Print milliseconds per image of both kinds of passes, and the peak of memory in MB."""
    import torch

    from rebll_avalanche import build_model, keep_freed_memory

    if choice == "keep" and not keep_freed_memory():
        raise SystemExit("this C library cannot be asked, or MALLOC_ variables are set")
    torch.set_num_threads(1)
    model, images = build_model(backbone), torch.rand(batch, 3, side, side)

    def best(training: bool) -> float:
        taken = []
        for _ in range(1 + PASSES):  # the first also fetches what is kept
            start = time.process_time()
            with torch.set_grad_enabled(training):
                features = model.train(training).features(images)
            if training:
                features.sum().backward()
            taken.append(time.process_time() - start)
        return 1e3 * min(taken[1:]) / batch

    times = best(training=False), best(training=True)
    print(*times, peak_memory())


def _turn(choice: str, backbone: str, side: int, batch: int) -> list[float]:
    command = [sys.executable, "-W", "ignore", __file__, choice, backbone, str(side), str(batch)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(number) for number in output.split()]


def main() -> None:
    """Print one row per network."""
    print("| network | evaluation, ms an image | gain | training | gain | peak, MB | of before |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for backbone, side, batch in CASES:
        turns = [
            [_turn(choice, backbone, side, batch) for choice in ("leave", "keep")]
            for _ in range(ROUNDS)
        ]
        kept = [statistics.median(keep[i] for _, keep in turns) for i in range(3)]
        ratio = [statistics.median(leave[i] / keep[i] for leave, keep in turns) for i in range(3)]
        print(
            f"| {backbone}, {side} px, batch {batch} | {kept[0]:.2f} | {ratio[0]:.2f} x | {kept[1]:.2f} "
            f"| {ratio[1]:.2f} x | {kept[2]:.0f} | {1 / ratio[2]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
