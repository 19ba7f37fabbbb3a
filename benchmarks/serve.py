"""A server beside a bare loop over the same pictures: all figures are ratios within one run.

    python benchmarks/serve.py --pictures 64 --rounds 3 --requests 10000 --to benchmarks/results/serve.csv

Asked are: seconds of 8 clients that send one picture at a time beside a loop of ``learner.predict`` (the
best of some rounds each, in turn); the 99th percentile of answers to one client while a lesson is learned
beside that without; the server's memory after all requests beside that after the first tenth.
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
from rebll_avalanche.pictures import decode_picture
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


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answers", type=int, default=200, help="for each percentile")
    parser.add_argument("--requests", type=int, default=10_000, help="while memory is watched")
    parser.add_argument("--to", type=Path)
    arguments = parser.parse_args()
    contents = [photograph(seed) for seed in range(arguments.pictures)]
    learner = taught(contents)
    rows: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = learner.save(Path(folder, "noise.rebll"))
        command = [sys.executable, "-m", "rebll_avalanche.cli", "serve", str(file), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                with httpx.Client(base_url=address, timeout=600) as client:
                    rows = measured(
                        client, psutil.Process(server.pid), learner, contents, arguments
                    )
            finally:
                server.terminate()
    for name, ratio in rows:
        print(f"{name:<60} {ratio:.2f}")
    if arguments.to:
        with arguments.to.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["measured", "ratio"])
            writer.writerows((name, f"{ratio:.3f}") for name, ratio in rows)


def measured(
    client: httpx.Client,
    server: psutil.Process,
    learner: Learner,
    contents: Sequence[bytes],
    arguments: argparse.Namespace,
) -> list[tuple[str, float]]:
    """All ratios."""
    all_clients(client, contents[:CLIENTS])
    bare(learner, contents[:4])
    with_server, without = [], []
    for _ in range(arguments.rounds):
        without.append(bare(learner, contents))
        with_server.append(all_clients(client, contents))
    quiet = [ask(client, contents[i % len(contents)]) for i in range(arguments.answers)]
    busy = during_a_lesson(client, contents, arguments.answers)
    tenth = -(-arguments.requests // (10 * len(contents)))
    for _ in range(tenth):
        all_clients(client, contents)
    early = server.memory_info().rss
    for _ in range(9 * tenth):
        all_clients(client, contents)
    late = server.memory_info().rss
    return [
        (f"seconds of {CLIENTS} clients / seconds of a bare loop", min(with_server) / min(without)),
        ("p99 during a lesson / p99 without", _p99(busy) / _p99(quiet)),
        (f"memory after {10 * tenth * len(contents)} requests / after a tenth", late / early),
    ]


def _p99(seconds: Sequence[float]) -> float:
    return float(np.percentile(seconds, 99))


if __name__ == "__main__":
    main()
