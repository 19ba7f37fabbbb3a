"""The command itself, on two processes that torchrun starts, stopped and killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.running.run import run_experiment

SETTINGS = {
    "benchmark": {"name": "scenes", "scenario": "B10-C5", "train_size": 60, "test_size": 40},
    "method": {"name": "rebll", "mem_size": 8},
    "training": {"epochs": 6, "batch_size": 16, "lr": 0.01, "device": "cpu"},
}


def started(recipe: Path, folder: Path, log: Path, *options: str) -> subprocess.Popen[bytes]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", *options]
    command = [*torchrun, "--nproc-per-node", "2", "-m", "rebll_avalanche", "run", str(recipe)]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, "--folder", str(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )


def wait_for(job: subprocess.Popen[bytes], folder: Path, pattern: str, log: Path) -> None:
    until = time.monotonic() + 240
    while not list((folder / "checkpoint").glob(pattern)):
        assert job.poll() is None, log.read_text()
        assert time.monotonic() < until
        time.sleep(0.01)


def ranks_of(job: subprocess.Popen[bytes]) -> dict[str, psutil.Process]:
    ranks = {}
    for child in psutil.Process(job.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if (rank := child.environ().get("RANK")) is not None:
                ranks[rank] = child
    return ranks


def said(log: Path) -> list[str]:
    """What the command itself has said."""
    return [line for line in log.read_text().splitlines() if line.startswith("rebll run:")]


@pytest.mark.skipif(os.name == "nt", reason="torchrun ends its processes by signals")
def test_stopped_and_killed_a_job_ends_in_the_bits_of_one_left_alone(
    tmp_path, on_ranks, final_bits
):
    recipe, folder = tmp_path / "recipe.yaml", tmp_path / "disturbed"
    recipe.write_text(yaml.safe_dump(SETTINGS))

    log = tmp_path / "stopped.txt"
    job = started(recipe, folder, log)
    wait_for(job, folder, "experience-0000-*", log)
    ranks = ranks_of(job)
    assert set(ranks) == {"0", "1"}
    job.send_signal(signal.SIGTERM)
    assert job.wait(120) != 0
    assert not any(process.is_running() for process in ranks.values())
    assert len(said(log)) == 1, log.read_text()

    log = tmp_path / "killed.txt"
    job = started(recipe, folder, log, "--max-restarts", "2")
    wait_for(job, folder, "experience-0001-*", log)
    ranks_of(job)["1"].kill()
    wait_for(job, folder, "experience-0002-*", log)
    ranks_of(job)["0"].kill()
    assert job.wait(240) == 0, log.read_text()
    assert len(said(log)) == 2, log.read_text()  # one for each that was killed
    assert log.read_text().count("average mAP") == 1  # one table, of the first rank

    alone = tmp_path / "alone"
    on_ranks(lambda: run_experiment(Config.from_dict(SETTINGS), alone))
    assert final_bits(folder) == final_bits(alone)
