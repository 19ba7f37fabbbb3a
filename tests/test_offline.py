"""Nothing leaves the computer unless somebody asks for it: importing, training and predicting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rebll_avalanche

PACKAGE = Path(rebll_avalanche.__file__).parent
# An audit hook sees every connection and name lookup of the process, whichever library makes it.
CLOSED = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
                 "socket.gethostbyname", "urllib.Request"):
        print("network:", event, arguments, file=sys.stderr, flush=True)
        import os
        os._exit(9)  # whoever catches errors and goes on must not hide it

sys.addaudithook(refuse)
"""


def offline(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", CLOSED + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket\ntry: socket.getaddrinfo('localhost', 80)\nexcept Exception: pass",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
    ],
)
def test_a_connection_would_be_noticed(code):
    ended = offline(code)
    assert ended.returncode == 9
    assert "network: " in ended.stderr


def test_importing_every_module_needs_no_network():
    names = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in sorted(PACKAGE.rglob("*.py"))
    ]
    ended = offline(f"import importlib\nfor name in {names!r}: importlib.import_module(name)")
    assert ended.returncode == 0, ended.stderr


def test_training_and_predicting_need_no_network(tmp_path):
    code = """
from pathlib import Path
from PIL import Image
from rebll_avalanche import load_run
from rebll_avalanche.cli import main

folder = sys.argv[1]
settings = {"benchmark.scenario": "B10-C10", "benchmark.train_size": 80, "benchmark.test_size": 80,
            "method.mem_size": 8, "training.epochs": 1, "training.batch_size": 16}
options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
assert not main(["run", "--folder", folder, *options])
(scores,) = load_run(folder).predict([Image.new("RGB", (40, 30))])
print("predicted", len(scores))
"""
    ended = offline(code, str(tmp_path / "run"))
    assert ended.returncode == 0, ended.stderr
    assert "predicted 20" in ended.stdout
