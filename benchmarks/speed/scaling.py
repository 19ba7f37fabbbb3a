"""What limits a run on 8, 64 and 512 GPUs, on paper.

    python benchmarks/speed/scaling.py

TResNet-M at 224 px on COCO 2014, batch 64 with 64 memory images. The network and the messages are counted,
the time of the metrics is measured on one core (RESULTS.md), and the GPU and its links are assumed: no GPU
was at hand. Nothing overlaps, as in ``distributed/joining.py``. Times are milliseconds.
"""

from __future__ import annotations

from math import ceil, log2

# Counted: torch's FlopCounterMode, parameters and batch norms of the network with 80 classes.
FORWARD, BACKWARD = 11.47e9, 22.76e9  # operations per image
GRADIENTS = 4 * 29_503_952  # bytes
NORMS = 60
# Counted: one sum per batch norm, forward and backward, for the batch and for the memory batch.
NORM_MESSAGES = 2 * 2 * NORMS
BATCH, MEMORY_BATCH = 64, 64
MEMORY, TEST_IMAGES, CLASSES = 2000, 40_504, 80
METRICS = 104.1  # ms, measured: all metrics of 40,504 x 80 scores
# Assumed.
SPEED = 50e12  # operations per second that a GPU reaches
WITHIN, BETWEEN = 200e9, 25e9  # bytes per second, between 8 GPUs of a machine and between machines
ETHERNET = 1e9  # bytes per second, for tensors of the CPU
HOP = 5e-6  # seconds for a small message between two GPUs


def all_reduce(size: float, ranks: int) -> float:
    """A sum over ranks: each byte travels twice, and the message goes up a tree and down again.

    >>> all_reduce(GRADIENTS, 1)
    0.0
    >>> round(all_reduce(GRADIENTS, 8), 3)
    1.063
    """
    bandwidth = WITHIN if ranks <= 8 else BETWEEN
    return 1000 * (2 * size * (ranks - 1) / ranks / bandwidth + 2 * log2(ranks) * HOP)


def passes(operations: float, images: int, ranks: int) -> float:
    """Images split between ranks; the slowest has the most, and at least one if there are any."""
    return 1000 * operations * ceil(images / ranks) / SPEED


def on_paper(ranks: int) -> dict[str, float]:
    """The parts of a step, of an evaluation and of a relabelling."""
    whole = FORWARD + BACKWARD
    step = {
        "batch and teacher": passes(whole + FORWARD, BATCH, ranks),
        "memory batch": passes(whole, MEMORY_BATCH, ranks),
        "sum of gradients": all_reduce(GRADIENTS, ranks),
        "batch norms that train": NORM_MESSAGES * all_reduce(0, ranks),
    }
    scores = 2 * 4 * TEST_IMAGES * CLASSES  # scores and labels, float32
    return step | {
        "a step": sum(step.values()),
        "a step, bn_mode: frozen": sum(step.values()) - step["batch norms that train"],
        "evaluation: network": passes(FORWARD, TEST_IMAGES, ranks),
        "evaluation: scores sent, metrics": METRICS
        + 1000 * scores * (ranks - 1) / ranks / ETHERNET,
        "relabelling": passes(FORWARD, MEMORY, ranks),
    }


def main() -> None:
    """Print the table."""
    found = {ranks: on_paper(ranks) for ranks in (1, 8, 64, 512)}
    print(f"| ms | {' | '.join(f'{ranks} GPUs' for ranks in found)} |\n|---|---:|---:|---:|---:|")
    for name in found[1]:
        print(f"| {name} |", *(f"{parts[name]:.1f} |" for parts in found.values()))
    for name in ("a step", "a step, bn_mode: frozen"):
        gained = (found[1][name] / parts[name] for parts in found.values())
        print(f"| {name}: times as fast as one |", *(f"{value:.1f} |" for value in gained))


if __name__ == "__main__":
    main()
