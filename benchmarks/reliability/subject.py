"""The run that is tormented: a small one with a memory, a teacher and a schedule, in a process of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rebll_avalanche import multilabel_benchmark
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.checkpointing.state import pack
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.running.run import run_experiment

DONE, REFUSED, TRACEBACK, KILLED = "done", "refused", "traceback", "killed"
# Calls that touch the file system, as Python's audit hooks name them.
FILE_EVENTS = (
    *("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.scandir"),
    *("os.listdir", "shutil.rmtree"),
)


def streams(experiences: int = 3) -> Any:
    """Vectors, linearly separable up to noise, two classes per experience."""
    generator = torch.Generator().manual_seed(0)
    classes = 2 * experiences
    rule = torch.randn(8, classes, generator=generator)
    samples = max(160, 20 * experiences)
    x = torch.randn(samples, 8, generator=generator)
    y = (x @ rule > 1).float()
    y[torch.arange(samples), torch.arange(samples) % classes] = 1
    half = samples // 2
    return multilabel_benchmark((x[:half], y[:half]), (x[half:], y[half:]), "B2-C2")


def settings(method: str, epochs: int = 2) -> Config:
    """What is run."""
    return Config.from_dict(
        {
            "benchmark": {"name": "scenes", "scenario": "B2-C2"},
            "model": {"backbone": "vector"},
            "method": {"name": method},
            "training": {"epochs": epochs, "batch_size": 32, "lr": 0.05, "device": "cpu"},
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


def start(action: Callable[[], Any], prepare: Callable[[], None] | None = None) -> int:
    """Do something in another process; its number."""
    child = os.fork()
    if child:
        return child
    code = 4
    try:
        warnings.simplefilter("ignore")
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        if "RELIABILITY_LOUD" not in os.environ:
            os.dup2(silence, 2)
        if prepare is not None:
            prepare()
        action()
        code = 0
    except (ValueError, OSError) as error:  # what the command line prints in one line
        print(f"refused: {error}", file=sys.stderr)
        code = 3
    except BaseException as error:
        traceback.print_exception(error)
    finally:
        os._exit(code)


def outcome(child: int) -> str:
    """How a process ended."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return KILLED if os.WTERMSIG(status) == signal.SIGKILL else TRACEBACK
    return {0: DONE, 3: REFUSED}.get(os.WEXITSTATUS(status), TRACEBACK)


def kill_at_call(number: int) -> Callable[[], None]:
    """Die at a certain call to the file system."""

    def prepare() -> None:
        calls = 0

        def hook(event: str, arguments: Any) -> None:
            nonlocal calls
            if event in FILE_EVENTS:  # to kill is an event as well
                calls += 1
                if calls == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    return prepare


def count_calls(action: Callable[[], Any]) -> int:
    """How often an action touches the file system."""
    reading, writing = os.pipe()

    def counted() -> None:
        calls = 0

        def hook(event: str, arguments: Any) -> None:
            nonlocal calls
            calls += event in FILE_EVENTS

        sys.addaudithook(hook)
        action()
        os.write(writing, str(calls).encode())

    child = start(counted)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return int(answer)


FAULTS = {"EIO": 2, "disk full": 3, "torn write": 4, "power loss": 5}


def arm(fault: str, number: int, folder: Path) -> Callable[[], None]:
    """Let a call that changes a file below the folder fail."""

    def prepare() -> None:
        shim = ctypes.CDLL(None)
        shim.fault_arm(FAULTS[fault], ctypes.c_long(number), os.fsencode(folder))

    return prepare


def count_changes(action: Callable[[], Any], folder: Path) -> int:
    """How many calls change a file below the folder."""
    reading, writing = os.pipe()

    def counted() -> None:
        shim = ctypes.CDLL(None)
        shim.fault_seen.restype = ctypes.c_long
        shim.fault_arm(1, ctypes.c_long(0), os.fsencode(folder))
        action()
        os.write(writing, str(shim.fault_seen()).encode())

    child = start(counted)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return int(answer)


def run(method: str, folder: Path) -> Callable[[], Any]:
    """The action of running, or of going on."""
    return lambda: run_experiment(settings(method), folder, benchmark=streams())
