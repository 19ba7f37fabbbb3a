"""Stop a run fifteen times with SIGKILL, at random moments, and compare every bit of what it ends in.

    python benchmarks/kill_test.py [--kills 15] [--seed 0] [--workers 0]

Trains RebLL on drawn scenes once without a stop, then again as ``rebll run`` would, killed from outside
whenever a random time is over and started again. A few minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.checkpointing.state import pack
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.running.run import run_experiment


def settings(workers: int) -> Config:
    """A small run with a memory, a teacher, a schedule and batch norms."""
    return Config.from_dict(
        {
            "benchmark": {
                "name": "scenes",
                "scenario": "B5-C3",
                "train_size": 400,
                "test_size": 200,
                "image_size": 32,
            },
            "method": {"name": "rebll", "mem_size": 20},
            "training": {"epochs": 3, "batch_size": 32, "device": "cpu", "num_workers": workers},
        }
    )


def final_bits(folder: Path) -> dict[str, bytes]:
    """Model, optimizer, memory, teacher, random numbers and results at the end of a run."""
    end = CheckpointFolder(folder / "checkpoint").newest().end
    end["strategy"]["plugins"].pop("Recorder-0")  # holds the time that training took
    tensors: dict[str, torch.Tensor] = {}
    numbers = [(record["metrics"], record["loss_terms"]) for record in end["records"]]
    text = repr((pack(end["strategy"], tensors), numbers))
    return {"text": text.encode()} | {k: v.numpy().tobytes() for k, v in tensors.items()}


def start(config: Config, folder: Path) -> int:
    """Run in another process; its number."""
    child = os.fork()
    if child == 0:
        try:
            run_experiment(config, folder)
            os._exit(0)
        except BaseException as error:
            print(f"the run failed: {error!r}", file=sys.stderr)
            os._exit(1)
    return child


def main() -> int:
    """0 if every stopped run ended in the same bits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="processes that load images")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    config = settings(arguments.workers)
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        began = time.perf_counter()
        os.waitpid(start(config, root / "whole"), 0)
        whole = time.perf_counter() - began
        wanted = final_bits(root / "whole")
        print(f"a run without a stop takes {whole:.1f} s, {len(wanted)} tensors are compared")
        kills = runs = 0
        while kills < arguments.kills:
            folder = root / f"stopped-{runs}"
            while True:
                child = start(config, folder)
                time.sleep(moments.uniform(0, whole))
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                if status == 0:  # it was faster
                    break
                if status != signal.SIGKILL:
                    return 1
                kills += 1
                last = max(
                    (path.name for path in folder.glob("checkpoint/exp*")), default="nothing"
                )
                print(f"killed {kills}, newest checkpoint: {last}")
            runs += 1
            same = final_bits(folder) == wanted
            print(f"run {runs} is over after {kills} kills: {'same bits' if same else 'DIFFERENT'}")
            if not same:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
