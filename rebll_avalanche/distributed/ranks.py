"""The ranks of a job: start, identity, and collective operations."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from rebll_avalanche.errors import LostRankError

Result = TypeVar("Result")

# How long ranks wait for the first to fill a cache; a rank that ends is noticed at once.
PATIENCE = timedelta(hours=12)


def start() -> bool:
    """Join the job that ``torchrun``, or a launcher like it, has started this process for.

    CPU tensors are sent by gloo, GPU tensors by nccl; each rank uses the GPU of its local number.

    Returns:
        Whether this process is one of a job.

    >>> start()  # no launcher has started this process
    False
    """
    if active():
        return True
    if not launched():
        return False
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "cpu:gloo,cuda:nccl"
    from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]

    several = int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1
    if several and store_is_kept() and os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
        # A restarted machine cannot rejoin, since each counts its own restarts.
        raise ValueError(
            "on several machines, --max-restarts needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the "
            "environment of torchrun on each of them; set it, or leave --max-restarts out"
        )
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    if store_is_kept():
        # Per restart: otherwise a rank could find the address of a dead one.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = PrefixStore(f"attempt-{attempt}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    return True


def launched() -> bool:
    """Whether ``torchrun``, or a launcher like it, has started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def store_is_kept() -> bool:
    """Whether ``torchrun`` hosts the rendezvous store, rather than the first rank."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def active() -> bool:
    """Whether this process belongs to a job, possibly of one process."""
    return dist.is_available() and dist.is_initialized()


def check_backend() -> None:
    """Refuse a job without a CPU backend: counts, scores and random states are on the CPU.

    Raises:
        ValueError: Naming its backend.
    """
    if active() and "cpu:" not in dist.get_backend_config():
        raise ValueError(
            f"this job sends tensors of {dist.get_backend_config()} only, but some are on the CPU; begin it "
            "with rebll_avalanche.distributed.ranks.start(), or with "
            "torch.distributed.init_process_group('cpu:gloo,cuda:nccl')"
        )


def rank() -> int:
    """The number of this process; 0 in a single one."""
    return dist.get_rank() if active() else 0


def world_size() -> int:
    """Number of processes of the job."""
    return dist.get_world_size() if active() else 1


def is_first() -> bool:
    """Whether this is the process that writes files and shows progress."""
    return rank() == 0


def share_of(count: int) -> slice:
    """This rank's slice of ``count`` items; slices differ in length by at most one."""
    ranks, mine = world_size(), rank()
    return slice(count * mine // ranks, count * (mine + 1) // ranks)


def total(value: Tensor) -> Tensor:
    """The sum over ranks, without a gradient; in a single process the tensor itself."""
    if not active():
        return value
    summed = value.detach().clone()
    _ask(dist.all_reduce, summed)
    return summed


def total_of(count: int) -> int:
    """The sum of a number over ranks."""
    return int(total(torch.tensor(count))) if active() else count


def everywhere(value: Result) -> list[Result]:
    """The values of all ranks, in order."""
    if not active():
        return [value]
    found: list[Any] = [None] * world_size()
    _ask(dist.all_gather_object, found, value)
    return found


def joined(rows: Tensor) -> Tensor:
    """The rows of all ranks, in order."""
    return torch.cat(everywhere(rows)) if active() else rows


def from_first(work: Callable[[], Result]) -> Result:
    """Call a function on the first rank, and return its result on all.

    Raises:
        Exception: The first rank's exception, on every rank.
    """
    if not active():
        return work()
    answer: list[Any] = [None, None]
    if is_first():
        try:
            answer[0] = work()
        except Exception as error:
            answer[1] = error
    _ask(dist.broadcast_object_list, answer)
    if answer[1] is not None:
        raise answer[1]
    result: Result = answer[0]
    return result


def first_alone(work: Callable[[], Result]) -> Result:
    """Call a function on the first rank, which fills the caches, and then on the others."""
    if not active():
        return work()
    done: list[Result] = []

    def fill() -> None:
        done.append(work())

    from_first(fill)
    return done[0] if done else work()


def take_from_first(tensors: list[Tensor]) -> None:
    """Overwrite tensors with those of the first rank."""
    if active():
        for tensor in tensors:
            _ask(dist.broadcast, tensor.detach(), 0)


def sum_in_place(tensors: list[Tensor]) -> None:
    """Add tensors up over ranks, flattened into one message for each type and device."""
    if not active():
        return
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for alike in kinds.values():
        message = torch.cat([tensor.reshape(-1) for tensor in alike])
        _ask(dist.all_reduce, message)
        parts = message.split([tensor.numel() for tensor in alike])
        for tensor, part in zip(alike, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))


def _ask(collective: Callable[..., Any], *arguments: Any) -> None:
    try:
        collective(*arguments)
    except RuntimeError as error:  # how gloo and nccl report a lost peer
        raise LostRankError(
            f"rank {rank()} of {world_size()} has lost another process of this job, which has ended or is "
            "out of reach; the same command goes on from the last finished epoch, and torchrun "
            f"--max-restarts 3 does so by itself. ({str(error).splitlines()[0]})"
        ) from error
