"""Something done in a process of its own, which is then killed, or given a failing disk.

A process is a fork of this one, in which everything is imported already: it starts in milliseconds, and
otherwise behaves as one that was started by itself.
"""

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

DONE, REFUSED, TRACEBACK, KILLED = "done", "refused", "traceback", "killed"
Action = Callable[[], Any]
# Calls that touch the file system, as Python's audit hooks name them.
FILE_EVENTS = (
    *("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.scandir"),
    *("os.listdir", "shutil.rmtree"),
)
# What faults.c calls them; the first, which only counts, is no fault.
COUNT = 1
FAULTS = {"EIO": 2, "disk full": 3, "torn write": 4, "power loss": 5}


def start(action: Action, prepare: Callable[[], None] | None = None) -> int:
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


def count_calls(action: Action) -> int:
    """How often an action touches the file system."""
    calls = 0

    def counted() -> int:
        def hook(event: str, arguments: Any) -> None:
            nonlocal calls
            calls += event in FILE_EVENTS

        sys.addaudithook(hook)
        action()
        return calls

    return _number_from(counted)


def arm(fault: str, number: int, folder: Path) -> Callable[[], None]:
    """Let a call that changes a file below the folder fail."""

    def prepare() -> None:
        shim = ctypes.CDLL(None)
        shim.fault_arm(FAULTS[fault], ctypes.c_long(number), os.fsencode(folder))

    return prepare


def count_changes(action: Action, folder: Path) -> int:
    """How many calls change a file below the folder."""

    def counted() -> int:
        shim = ctypes.CDLL(None)
        shim.fault_seen.restype = ctypes.c_long
        shim.fault_arm(COUNT, ctypes.c_long(0), os.fsencode(folder))
        action()
        return int(shim.fault_seen())

    return _number_from(counted)


def _number_from(counted: Callable[[], int]) -> int:
    """What a function returns in another process."""
    reading, writing = os.pipe()
    child = start(lambda: os.write(writing, str(counted()).encode()))
    os.close(writing)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    if outcome(child) != DONE:
        raise RuntimeError("what was to be counted has failed; RELIABILITY_LOUD=1 says why")
    return int(answer)
