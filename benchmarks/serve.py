"""A server beside a bare loop over the same pictures, and its memory over many requests.

    python benchmarks/serve.py speed --images photos --to benchmarks/results/serve.csv
    python benchmarks/serve.py memory --images photos --to benchmarks/results/serve.csv

``speed`` gives ratios within one run: seconds of 8 clients that send one picture at a time over those of a
loop of ``learner.predict`` (the best of some rounds each, in turn); the 99th percentile of answers to one
client while a lesson is learned over that without. ``memory`` gives the megabytes of the server while 8
clients send requests, without pages of files, which the system may drop and read again at any time. The
server listens on the loopback address and ends with the measurement. Without ``--images``, pictures are
noise.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import psutil
from PIL import Image

from rebll_avalanche import Learner
from rebll_avalanche.pictures import SUFFIXES, decode_picture
from rebll_avalanche.tables import AnnotationTable

CLIENTS = 8


def photograph(seed: int) -> bytes:
    """A JPEG file of a common size whose content costs about as much to decode as a photograph's."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (24, 32, 3)).astype(np.uint8))
    pixels = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC)).astype(int)
    noisy = (pixels + random.integers(-12, 13, pixels.shape)).clip(0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noisy).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def some_pictures(folder: Path | None, count: int) -> list[bytes]:
    """The first files of a folder, or noise."""
    if folder is None:
        return [photograph(seed) for seed in range(count)]
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    return [file.read_bytes() for file in files[:count]]


def taught(contents: Sequence[bytes]) -> Learner:
    """A learner that knows twenty classes; what they mean does not matter here."""
    learner = Learner()
    labels = np.random.default_rng(0).integers(0, 2, (len(contents), 20)).astype(np.float32)
    learner.learn(
        AnnotationTable(
            images=tuple(f"{number}.jpg" for number in range(len(contents))),
            class_names=tuple(f"class {letter}" for letter in "abcdefghijklmnopqrst"),
            labels=labels,
            read_as="noise",
            pictures=[decode_picture(content) for content in contents],
        )
    )
    return learner


def ask(client: httpx.Client, content: bytes) -> float:
    """Seconds until one picture is answered."""
    started = time.perf_counter()
    answer = client.post("/api/predict", files={"pictures": ("a.jpg", content)})
    answer.raise_for_status()
    return time.perf_counter() - started


def all_clients(client: httpx.Client, contents: Sequence[bytes]) -> float:
    """Seconds until all are answered."""
    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda content: ask(client, content), contents))
    return time.perf_counter() - started


def bare(learner: Learner, contents: Sequence[bytes]) -> float:
    """The same without a server."""
    started = time.perf_counter()
    for content in contents:
        learner.predict(decode_picture(content))
    return time.perf_counter() - started


def during_a_lesson(client: httpx.Client, contents: Sequence[bytes], count: int) -> list[float]:
    """Seconds of each answer while lessons are learned one after the other."""
    labels = json.dumps([{"new": bool(number % 2)} for number in range(len(contents))])
    files = [("pictures", (f"{n}.jpg", content)) for n, content in enumerate(contents)]
    found: list[float] = []
    while len(found) < count:
        job = client.post("/api/learn", files=files, data={"labels": labels}).json()
        while client.get(f"/api/jobs/{job['number']}").json()["state"] in ("waiting", "running"):
            found.append(ask(client, contents[len(found) % len(contents)]))
        client.post("/api/undo").raise_for_status()
    return found


def speed(
    client: httpx.Client, learner: Learner, contents: Sequence[bytes], arguments: argparse.Namespace
) -> dict[str, float]:
    """Ratios."""
    all_clients(client, contents[:CLIENTS])
    bare(learner, contents[:CLIENTS])
    with_server, without = [], []
    for _ in range(arguments.rounds):
        without.append(bare(learner, contents))
        with_server.append(all_clients(client, contents))
    quiet = [ask(client, contents[i % len(contents)]) for i in range(arguments.answers)]
    busy = during_a_lesson(client, contents, arguments.answers)
    return {
        f"seconds of {CLIENTS} clients / seconds of a bare loop": min(with_server) / min(without),
        "p99 during a lesson / p99 without": _p99(busy) / _p99(quiet),
    }


def memory(
    client: httpx.Client,
    server: psutil.Process,
    contents: Sequence[bytes],
    arguments: argparse.Namespace,
) -> dict[str, float]:
    """Megabytes of the server: at the start, after a tenth of all requests, in the middle, at the end."""
    found = {"MB before the first request": _megabytes(server)}
    stops = {arguments.requests // 10, arguments.requests // 2, arguments.requests}
    done = 0
    while done < arguments.requests:
        until = min(stop for stop in stops if stop > done)
        some = [contents[number % len(contents)] for number in range(done, until)]
        all_clients(client, some)
        done = until
        found[f"MB after {done} requests"] = _megabytes(server)
        print(done, f"{_megabytes(server):.0f} MB", flush=True)
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("speed", "memory"))
    parser.add_argument("--images", type=Path, help="a folder of pictures")
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answers", type=int, default=200, help="for each percentile")
    parser.add_argument("--requests", type=int, default=10_000, help="while memory is watched")
    parser.add_argument("--to", type=Path, help="a table whose rows of this part are replaced")
    arguments = parser.parse_args()
    contents = some_pictures(arguments.images, arguments.pictures)
    learner = taught(contents)
    with tempfile.TemporaryDirectory() as folder:
        file = learner.save(Path(folder, "some.rebll"))
        command = [sys.executable, "-m", "rebll_avalanche.cli", "serve", str(file), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                # The server closes what has been idle for five seconds.
                limits = httpx.Limits(keepalive_expiry=2)
                with httpx.Client(base_url=address, timeout=600, limits=limits) as client:
                    if arguments.part == "speed":
                        rows = speed(client, learner, contents, arguments)
                    else:
                        rows = memory(client, psutil.Process(server.pid), contents, arguments)
            finally:
                server.terminate()
    for name, value in rows.items():
        print(f"{name:<60} {value:.2f}")
    if arguments.to:
        write(arguments.to, arguments.part, rows)


def write(path: Path, part: str, rows: dict[str, float]) -> None:
    """Replace the rows of one part of a table."""
    kept: list[list[str]] = []
    if path.exists():
        with path.open(newline="") as stream:
            kept = [row for row in csv.reader(stream) if row[0] not in ("part", part)]
    kept += [[part, name, f"{value:.3f}"] for name, value in rows.items()]
    with path.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([["part", "measured", "value"], *kept])


def _megabytes(process: psutil.Process) -> float:
    found = process.memory_info()
    return float((found.rss - getattr(found, "shared", 0)) / (1 << 20))


def _p99(seconds: Sequence[float]) -> float:
    return float(np.percentile(seconds, 99))


if __name__ == "__main__":
    main()
