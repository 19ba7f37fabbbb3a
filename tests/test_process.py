"""Pages that the system has to hand out, counted in a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from rebll_avalanche import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()

def fill():
    for _ in range(10):
        torch.ones(16 * 2**20)  # 64 MiB, freed at once

fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
fill()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize() // 2**20)
"""


def _fetched(choice: str, **variables: str) -> int:
    """MiB that were fetched from the system page by page while 640 were in use."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, choice]
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, env=clean | variables
    )
    return int(output.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_memory_is_used_again() -> None:
    # Where the system hands out huge pages a fault brings more than is counted here.
    assert _fetched("keep") < 10
    assert _fetched("keep") <= _fetched("leave")


def test_a_choice_by_environment_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    from rebll_avalanche import keep_freed_memory

    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert not keep_freed_memory()


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from rebll_avalanche import process

    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(process.ctypes, "CDLL", lambda name: object())
    assert not process.keep_freed_memory()
