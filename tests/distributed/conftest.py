"""Real ranks: processes of one job that talk by gloo."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist


def _rank(work: Callable[..., Any], rank: int, count: int, folder: Path) -> None:
    torch.set_num_threads(1)
    try:
        meeting = f"file://{folder}/meeting"
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
        torch.save(work(), folder / f"{rank}.pt")
        dist.barrier()  # a rank that leaves early would take the others' connections with it
        dist.destroy_process_group()
    except BaseException:
        (folder / f"{rank}.txt").write_text(traceback.format_exc())
        raise


@pytest.fixture
def on_ranks(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """A function that does some work on several ranks and gives back what each returned."""

    def run(work: Callable[[], Any], count: int = 2) -> list[Any]:
        folder = tmp_path_factory.mktemp("ranks")
        context = torch.multiprocessing.get_context("fork")  # imports take longer than the work
        children = [
            context.Process(target=_rank, args=(work, rank, count, folder)) for rank in range(count)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join(120)
            if child.is_alive():
                child.kill()
        said = [path.read_text() for path in sorted(folder.glob("*.txt"))]
        assert [child.exitcode for child in children] == [0] * count, "\n".join(said)
        return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(count)]

    return run
