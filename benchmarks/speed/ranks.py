"""One run on one and on two ranks: time of a step, and bytes that a rank hands over in it.

    python benchmarks/speed/ranks.py

Bytes are counted, times are measured and need as many idle cores as there are ranks. The ideal is the time of
one process divided by the number of ranks.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.models import build_model
from rebll_avalanche.strategies import RebLL

CASES = [("small_cnn", 48, 64), ("tf_efficientnet_lite0", 96, 32)]
CLASSES, STEPS = 8, 6


class Meter:
    """Counts what goes into the collectives, and times the steps of the last experience."""

    supports_distributed = True

    def __init__(self) -> None:
        self.bytes: Counter[str] = Counter()
        self.steps = 0
        self.seconds: list[float] = []
        self.gradients = 0
        self._started = 0.0
        self._inside = False
        if dist.is_initialized():
            plain = dist.all_reduce

            def counted(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
                if self._inside:
                    kind = "counts and statistics" if tensor.numel() < 10_000 else "gradients"
                    self.bytes[kind] += tensor.numel() * tensor.element_size()
                return plain(tensor, *arguments, **options)

            dist.all_reduce = counted

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Begin a step."""
        self._inside = strategy.experience.current_experience == 1
        self._started = time.perf_counter()

    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        """End it."""
        if self._inside:
            self.steps += 1
            self.seconds.append(time.perf_counter() - self._started)
            grads = (p.grad for p in strategy.model.parameters() if p.grad is not None)
            self.gradients = sum(grad.numel() * grad.element_size() for grad in grads)
        self._inside = False


def measure(backbone: str, side: int, batch: int) -> dict[str, Any]:
    """Train two experiences of random images, the second with teacher and memory."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    images = torch.rand(batch * STEPS, 3, side, side)
    labels = torch.eye(CLASSES).repeat(len(images) // CLASSES + 1, 1)[: len(images)]
    stream = multilabel_benchmark((images, labels), (images, labels), f"B{CLASSES // 2}-C4")
    model = build_model(backbone)
    meter = Meter()
    strategy = RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        train_mb_size=batch,
        batch_size_mem=batch,
        mem_size=batch,
        plugins=[meter],  # type: ignore[list-item]
    )
    for experience in stream.train_stream:
        strategy.train(experience)
    return {
        "milliseconds": 1000 * min(meter.seconds),
        "gradients": meter.gradients,
        "bytes": {kind: count // meter.steps for kind, count in meter.bytes.items()},
    }


def _rank(rank: int, count: int, folder: str, case: tuple[str, int, int]) -> None:
    if count:
        meeting = f"file://{folder}/meeting"
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
    torch.save(measure(*case), Path(folder) / f"{rank}.pt")


def on_ranks(count: int, case: tuple[str, int, int]) -> dict[str, Any]:
    """What the first of some ranks has measured; 0 is a process without a job."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (count, folder, case), nprocs=max(count, 1))
        found: dict[str, Any] = torch.load(Path(folder) / "0.pt")
        return found


def main() -> None:
    """Print one row per network."""
    print(
        "| network | a step of one process, ms | of one rank | of two ranks | of the ideal |",
        end="",
    )
    print(" gradients, kB | sent per step, kB | of which counts and statistics |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        alone, one, two = (on_ranks(count, case) for count in (0, 1, 2))
        times = [found["milliseconds"] for found in (alone, one, two)]
        sent = two["bytes"]
        print(
            f"| {case[0]}, {case[1]} px, batch {case[2]} |",
            *(f"{value:.1f} |" for value in times),
            f"{times[2] / (times[0] / 2):.2f} | {two['gradients'] / 1000:.1f} |",
            f"{sum(sent.values()) / 1000:.1f} | {sent['counts and statistics'] / 1000:.1f} |",
        )


if __name__ == "__main__":
    main()
