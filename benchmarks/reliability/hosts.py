"""Lose a host in the middle of a table on Ray and of a torchrun job, and compare every bit of the outcome.

    sudo python benchmarks/reliability/hosts.py [--cases table-killed table-cut torchrun-killed torchrun-cut]

Hosts are network namespaces of this machine (Linux, ``ip`` of iproute2, root): each has its own addresses and
processes of its own, and shares the disk with the others, as machines with a common folder do. They hang on
a bridge in one more namespace, so nothing of this can be seen outside. "cut" takes a host's cable away,
"killed" ends all its processes at once. Each case adds a row to ``hosts.csv`` beside this file; the exit code
is 1 if a bit differs.
"""

from __future__ import annotations

import argparse
import csv
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from subjects import run_bits

HERE = Path(__file__).parent
ROWS = HERE / "hosts.csv"
SWITCH = "rebll-switch"
HOSTS = {"rebll-a": "10.77.0.1", "rebll-b": "10.77.0.2", "rebll-c": "10.77.0.3"}
PATIENCE = 600.0
TOKEN = secrets.token_hex(32)  # of the Ray that is started here, known to all its hosts
SETTINGS: dict[str, Any] = {
    "benchmark": {"scenario": "B10-C5", "train_size": 60, "test_size": 40, "image_size": 16},
    "method": {"name": "rebll", "mem_size": 8},
    "training": {"epochs": 8, "batch_size": 16, "device": "cpu", "tuning": "off"},
}


def ip(*arguments: str) -> None:
    """Change the network."""
    subprocess.run(["ip", *arguments], check=True)


@contextmanager
def network() -> Iterator[None]:
    """Three hosts on a switch; all of it, and every process on it, is gone afterwards."""
    try:
        ip("netns", "add", SWITCH)
        ip("-n", SWITCH, "link", "add", "bridge", "type", "bridge")
        ip("-n", SWITCH, "link", "set", "bridge", "up")
        for host, address in HOSTS.items():
            ip("netns", "add", host)
            port = host.replace("rebll", "port")
            ip("-n", SWITCH, "link", "add", port, "type", "veth", "peer", "eth0", "netns", host)
            ip("-n", SWITCH, "link", "set", port, "master", "bridge", "up")
            ip("-n", host, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", host, "link", "set", device, "up")
        yield
    finally:
        for name in (*HOSTS, SWITCH):
            kill(name)
            subprocess.run(["ip", "netns", "delete", name], check=False)


def plug(host: str, state: str) -> None:
    """Take away a host's cable ("down"), or put it back ("up")."""
    ip("-n", SWITCH, "link", "set", host.replace("rebll", "port"), state)


def kill(host: str) -> None:
    """End all processes of a host at once."""
    found = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True)
    for number in found.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(number), 9)


def start(host: str, *command: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a program on a host."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # otherwise a host cannot come back
    }
    with log.open("ab") as output:
        return subprocess.Popen(
            ["ip", "netns", "exec", host, sys.executable, *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )


def wait_for(what: Callable[[], Any], log: Path) -> Any:
    """Wait until something is there."""
    until = time.monotonic() + PATIENCE
    while not (found := what()):
        if time.monotonic() > until:
            raise TimeoutError(f"nothing has happened for {PATIENCE:.0f} s:\n{log.read_text()}")
        time.sleep(0.05)
    return found


def table(root: Path, disturb: Callable[[str], None] | None) -> list[Path]:
    """Two runs on two hosts of a Ray cluster; the first host that finishes an epoch is disturbed."""
    recipe, log = root / "recipe.yaml", root / "log.txt"
    recipe.write_text(yaml.safe_dump(SETTINGS | {"seeds": [0, 1]}))
    head, *workers = HOSTS
    begin = ("-m", "ray.scripts.scripts", "start", "--disable-usage-stats", "--block")
    start(
        *(head, *begin, "--head", f"--node-ip-address={HOSTS[head]}", "--num-cpus=0"),
        *("--port=6379", "--include-dashboard=false", f"--temp-dir={root}/r"),
        log=log,
    )
    for host in workers:
        time.sleep(
            10
        )  # they share a disk, and those that start together would choose the same sockets
        own = f"--node-ip-address={HOSTS[host]}"
        start(host, *begin, f"--address={HOSTS[head]}:6379", own, "--num-cpus=1", log=log)
    command = ("-m", "rebll_avalanche", "table", str(recipe), "--folder", str(root / "runs"))
    job = start(head, *command, "--ray", f"{HOSTS[head]}:6379", log=log)
    if disturb is not None:
        lock = wait_for(lambda: _locks_of_runs_with_an_epoch(root / "runs"), log)[0]
        disturb(_host_of(int(lock.read_text())))
    if job.wait(PATIENCE):
        raise RuntimeError(log.read_text())
    for host in HOSTS:
        kill(host)
    return sorted(folder.parent for folder in (root / "runs").glob("*/results.csv"))


def _locks_of_runs_with_an_epoch(runs: Path) -> list[Path]:
    return [path.parents[1] / ".lock" for path in runs.glob("*/checkpoint/experience-0001-*")]


def _host_of(process: int) -> str:
    named = subprocess.run(
        ["ip", "netns", "identify", str(process)], capture_output=True, text=True
    )
    return named.stdout.strip()


def torchrun(root: Path, disturb: Callable[[str], None] | None) -> list[Path]:
    """One run on two hosts; the second is disturbed, comes back, and is given the same command."""
    recipe, log, folder = root / "recipe.yaml", root / "log.txt", root / "run"
    recipe.write_text(yaml.safe_dump(SETTINGS))
    first, second, _ = HOSTS

    def launch(host: str) -> subprocess.Popen[bytes]:
        return start(
            *(host, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{HOSTS[first]}:29500"),
            # Namespaces share the name of this machine, by which torchrun would know who keeps the store.
            *(
                "--rdzv-conf",
                f"is_host={int(host == first)},read_timeout=300",
                "--local-addr",
                HOSTS[host],
            ),
            *("--rdzv-id", "1", "--max-restarts", "3"),
            *("-m", "rebll_avalanche", "run", str(recipe), "--folder", str(folder)),
            log=log,
        )

    job = launch(first)
    other = launch(second)
    if disturb is not None:
        wait_for(lambda: list(folder.glob("checkpoint/experience-0001-*")), log)
        disturb(second)
        time.sleep(30)  # torchrun takes a host for dead after three missed signs of life, 15 s
        kill(second)  # a host that comes back has nothing running on it
        plug(second, "up")
        other.wait(PATIENCE)
        launch(second)
    if job.wait(PATIENCE):
        raise RuntimeError(log.read_text())
    return [folder]


JOBS = {"table": table, "torchrun": torchrun}
DISTURBANCES = {"killed": kill, "cut": lambda host: plug(host, "down")}


def main() -> int:
    """Run the cases; 1 if one has ended in other bits than undisturbed."""
    cases = [f"{job}-{how}" for job in JOBS for how in DISTURBANCES]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=cases, choices=cases)
    wanted = parser.parse_args().cases
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="rebll-") as place:
        undisturbed: dict[str, list[Any]] = {}
        for case in wanted:
            name, how = case.split("-")
            for disturb in (None, DISTURBANCES[how]):
                if disturb is None and name in undisturbed:
                    continue
                root = Path(tempfile.mkdtemp(dir=place, prefix=""))  # sockets need short names
                with network():
                    bits = [run_bits(folder) for folder in JOBS[name](root, disturb)]
                if disturb is None:
                    undisturbed[name] = bits
            same = sum(map(dict.__eq__, bits, undisturbed[name]))
            expected = len(undisturbed[name])
            wrong += same != expected or len(bits) != expected
            row = [name, f"a host is {how}", expected, same]
            print(*row, sep=", ", flush=True)
            begin = not ROWS.is_file()
            with ROWS.open("a", newline="") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                if begin:
                    writer.writerow(["job", "what happens", "runs", "the same bits"])
                writer.writerow(row)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
