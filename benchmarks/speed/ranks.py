"""What several processes cost: steps on ranks, ways to add gradients up, single messages, tables on Ray.

    python benchmarks/speed/ranks.py [--parts steps ways messages table]

Bytes are counted, times are measured and need two idle cores; only ratios within a call say something. The
ideal step is that of one process divided by the number of ranks; what processes reach that never talk is the
bound on this machine. "Computing" is the processor time of the thread that trains, without what it waits for.
A table on Ray is compared with the same in
processes of this machine, without and with the start of Ray.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.study import Planned
from rebll_avalanche.distributed.ranks import sum_in_place
from rebll_avalanche.models import build_model
from rebll_avalanche.process import keep_freed_memory
from rebll_avalanche.running.processes import Ended, run_all
from rebll_avalanche.strategies import RebLL

CASES = [("small_cnn", 48, 64), ("tf_efficientnet_lite0", 96, 32)]
CLASSES, STEPS = 8, 6


class Meter:
    """Counts what goes into the collectives, and times the steps of the last experience."""

    supports_distributed = True

    def __init__(self) -> None:
        self.bytes: Counter[str] = Counter()
        self.messages = 0
        self.steps = 0
        self.seconds: list[float] = []
        self.computing: list[float] = []
        self.gradients = 0
        self._started = self._computed = 0.0
        self._inside = False
        if dist.is_initialized():
            plain = dist.all_reduce

            def counted(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
                if self._inside:
                    self.messages += 1
                    kind = "counts and statistics" if tensor.numel() < 10_000 else "gradients"
                    self.bytes[kind] += tensor.numel() * tensor.element_size()
                return plain(tensor, *arguments, **options)

            dist.all_reduce = counted

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Begin a step."""
        self._inside = strategy.experience.current_experience == 1
        self._started, self._computed = time.perf_counter(), time.thread_time()

    def after_update(self, strategy: Any, **kwargs: Any) -> None:
        """End it."""
        if self._inside:
            self.steps += 1
            self.seconds.append(time.perf_counter() - self._started)
            self.computing.append(time.thread_time() - self._computed)
            grads = (p.grad for p in strategy.model.parameters() if p.grad is not None)
            self.gradients = sum(grad.numel() * grad.element_size() for grad in grads)
        self._inside = False


def measure(backbone: str, side: int, batch: int) -> dict[str, Any]:
    """Train two experiences of random images, the second with teacher and memory."""
    keep_freed_memory()  # as rebll does
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
        "computing": 1000 * min(meter.computing),
        "gradients": meter.gradients,
        "messages": meter.messages // meter.steps,
        "bytes": {kind: count // meter.steps for kind, count in meter.bytes.items()},
    }


def compare_ways(backbone: str, side: int, batch: int) -> dict[str, float]:
    """Milliseconds of a step with two forward passes, by the way in which gradients are added up."""
    from torch.distributed._composable.replicate import replicate
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    images = torch.rand(batch // dist.get_world_size(), 3, side, side)
    found = {}
    for way in ("no sum", "flattened", "DDP", "replicate") * 2:  # the second round counts
        torch.manual_seed(0)
        model: Any = build_model(backbone, bn_mode="frozen")
        model.head.grow(CLASSES)
        wrapped = {"DDP": DistributedDataParallel, "replicate": replicate}.get(way, lambda m: m)(
            model
        )
        seconds = []
        for _ in range(STEPS):
            dist.barrier()
            started = time.perf_counter()
            model.zero_grad()
            (wrapped(images).square().mean() + wrapped(images.flip(3)).square().mean()).backward()
            if way == "flattened":
                sum_in_place([p.grad for p in model.parameters() if p.grad is not None])
            seconds.append(time.perf_counter() - started)
        found[way] = 1000 * min(seconds)
    return found


def time_messages() -> dict[int, float]:
    """Milliseconds of one all-reduce, by the number of bytes."""
    torch.set_num_threads(1)
    found = {}
    for size in (8, 10_000, 1_000_000, 16_000_000, 118_000_000):
        message, seconds = torch.ones(size // 4), []
        for _ in range(5 if size > 10**7 else 50):
            dist.barrier()
            started = time.perf_counter()
            dist.all_reduce(message)
            seconds.append(time.perf_counter() - started)
        found[size] = 1000 * sorted(seconds)[len(seconds) // 2]
    return found


def _rank(
    rank: int, talk: bool, count: int, folder: str, work: Callable[..., Any], given: Any
) -> None:
    if talk:
        meeting = f"file://{folder}/meeting"
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
    torch.save(work(*given), Path(folder) / f"{rank}.pt")
    if talk:
        dist.barrier()


def on_ranks(count: int, work: Callable[..., Any], *given: Any, talk: bool = True) -> Any:
    """What the first of some processes has found, which are ranks of a job if they talk."""
    with tempfile.TemporaryDirectory() as folder:
        given = (talk, count, folder, work, given)
        torch.multiprocessing.spawn(_rank, given, nprocs=count)
        return torch.load(Path(folder) / "0.pt")


def print_steps() -> None:
    """Two tables with one row per network: times of a step and of computing in it; what is sent."""
    print("| ms | one process | two, half the batch each, not joined | one rank | two ranks |")
    print("|---|---|---|---|---|")
    sent = []
    for name, side, batch in CASES:
        found = [
            on_ranks(1, measure, name, side, batch, talk=False),
            on_ranks(2, measure, name, side, batch // 2, talk=False),
            on_ranks(1, measure, name, side, batch),
            on_ranks(2, measure, name, side, batch),
        ]
        for what in ("milliseconds", "computing"):
            print(f"| {name}, {side} px, batch {batch}, {what} |", end="")
            print(*(f" {each[what]:.1f} |" for each in found), flush=True)
        sent.append(found[-1])
    print("\n| kB per step | gradients | sent | of which counts and statistics | messages |")
    print("|---|---|---|---|---|")
    for (name, *_), two in zip(CASES, sent, strict=True):
        bytes_ = two["bytes"]
        print(
            f"| {name} | {two['gradients'] / 1000:.1f} | {sum(bytes_.values()) / 1000:.1f} |",
            f"{bytes_['counts and statistics'] / 1000:.1f} | {two['messages']} |",
            flush=True,
        )


def print_ways() -> None:
    """One row per network."""
    print("\n| network | no sum, ms | flattened | DDP | replicate |\n|---|---|---|---|---|")
    for case in CASES:
        found = on_ranks(2, compare_ways, *case)
        print(f"| {case[0]} |", *(f"{value:.1f} |" for value in found.values()), flush=True)


def print_messages() -> None:
    """One row per size."""
    print("\n| bytes in one all-reduce of two ranks | ms |\n|---|---|")
    for size, value in on_ranks(2, time_messages).items():
        print(f"| {size} | {value:.3f} |", flush=True)


def _check(ends: Iterable[Ended]) -> None:
    for end in ends:
        if end.kind:
            raise RuntimeError(f"{end.planned.name}: {end.kind}: {end.error}")


def print_table() -> None:
    """The same four runs in processes of this machine and on Ray, two at a time."""
    from ray.cluster_utils import Cluster

    from rebll_avalanche.running.cluster import run_all_on_ray

    benchmark = {"scenario": "B10-C10", "train_size": 200, "test_size": 100, "image_size": 32}
    parts = {"benchmark": benchmark, "training": {"epochs": 6, "device": "cpu", "tuning": "off"}}
    planned = [
        Planned(f"seed{seed}", Config.from_dict(parts | {"seed": seed})) for seed in range(4)
    ]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        _check(run_all(planned, Path(folder, "a"), jobs=2, threads=1))
        alone = time.perf_counter() - started
        started = time.perf_counter()
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        begun = time.perf_counter()
        _check(run_all_on_ray(planned, Path(folder, "b"), address=cluster.address))
        ended = time.perf_counter()
        cluster.shutdown()
    print("\n| four runs, two at a time | s |\n|---|---|")
    print(f"| processes of this machine | {alone:.1f} |\n| Ray | {ended - begun:.1f} |")
    print(f"| Ray, with its start | {ended - started:.1f} |")


PARTS = {"steps": print_steps, "ways": print_ways, "messages": print_messages, "table": print_table}


def main() -> None:
    """Print a table for each part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    for part in parser.parse_args().parts:
        PARTS[part]()


if __name__ == "__main__":
    main()
