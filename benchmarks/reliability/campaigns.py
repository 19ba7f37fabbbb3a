"""What is done to runs and caches; every trial ends in one word."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from subject import (
    DONE,
    FAULTS,
    KILLED,
    REFUSED,
    TRACEBACK,
    arm,
    count_calls,
    count_changes,
    final_bits,
    kill_at_call,
    outcome,
    run,
    settings,
    start,
    streams,
)

from rebll_avalanche.benchmarks.cache import cached_images
from rebll_avalanche.benchmarks.features import FrozenFeatures
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.label_cache import cached_table
from rebll_avalanche.checkpointing.verify import verify
from rebll_avalanche.running.run import run_experiment

SAME, LOST, SILENT = "same", "lost", "silent"
Trials = Callable[[int, random.Random], Iterator[str]]


class Subject:
    """One method, run once undisturbed, then over and over with something going wrong.

    Args:
        method: Its name.
        root: Where folders may be made.
    """

    def __init__(self, method: str, root: Path) -> None:
        self.method = method
        self.root = root / method
        self.root.mkdir(parents=True)
        self.whole = self.root / "whole"
        self.number = 0
        run(method, self.whole)()  # here, so that every module is imported before processes part
        self.wanted = final_bits(self.whole)
        began = time.perf_counter()
        if self._end(self._fresh()) != SAME:
            raise RuntimeError(f"two undisturbed runs of {method} differ, or the second one fails")
        self.seconds = time.perf_counter() - began

    def _fresh(self) -> Path:
        self.number += 1
        return self.root / f"trial-{self.number}"

    def _end(self, folder: Path) -> str:
        """Run it to the end, undisturbed, and compare."""
        ended = outcome(start(run(self.method, folder)))
        if ended != DONE:
            return TRACEBACK if ended == TRACEBACK else LOST
        same = final_bits(folder) == self.wanted and not verify(folder)[0].problems
        return SAME if same else SILENT

    def _stopped_again_and_again(self, number: int, stop: Callable[[Path], int]) -> Iterator[str]:
        """Disturb runs until they end; each disturbance is a trial, judged by the end of its run."""
        while number > 0:
            folder, stops = self._fresh(), 0
            ended = KILLED
            while ended == KILLED and stops < min(number, 8):
                ended = outcome(stop(folder))
                stops += ended == KILLED
            verdict = TRACEBACK if ended in (TRACEBACK, REFUSED) else self._end(folder)
            shutil.rmtree(folder, ignore_errors=True)
            trials = max(stops, int(verdict != SAME))  # a run that fails unasked is one, too
            yield from [verdict] * trials
            number -= trials

    def kill_at_times(self, number: int, draw: random.Random) -> Iterator[str]:
        """SIGKILL from outside."""

        def stop(folder: Path) -> int:
            child = start(run(self.method, folder))
            time.sleep(draw.uniform(0, self.seconds))
            os.kill(child, signal.SIGKILL)
            return child

        return self._stopped_again_and_again(number, stop)

    def kill_at_calls(self, number: int, draw: random.Random) -> Iterator[str]:
        """SIGKILL right before a call to the file system."""
        calls = count_calls(run(self.method, self._fresh()))

        def stop(folder: Path) -> int:
            return start(run(self.method, folder), kill_at_call(draw.randint(1, calls)))

        return self._stopped_again_and_again(number, stop)

    def failing(self, fault: str) -> Trials:
        """Trials in which one write, flush or rename goes wrong."""

        def trials(number: int, draw: random.Random) -> Iterator[str]:
            folder = self._fresh()
            changes = count_changes(run(self.method, folder), folder)
            for _ in range(number):
                folder = self._fresh()
                prepare = arm(fault, draw.randint(1, changes), folder)
                ended = outcome(start(run(self.method, folder), prepare))
                yield TRACEBACK if ended == TRACEBACK else self._end(folder)
                shutil.rmtree(folder, ignore_errors=True)

        return trials

    def flip_finished(self, number: int, draw: random.Random) -> Iterator[str]:
        """One bit of a finished run: `rebll verify` must see it, and no result may change unseen."""
        folder = self._fresh()
        shutil.copytree(self.whole, folder)
        files = _files(folder)
        for _ in range(number):
            path = draw.choice(files)
            good = path.read_bytes()
            place = _flip(path, draw)
            noticed = verify(folder)[0].problems
            yield _told(self._answer(folder) if noticed else SILENT, place)
            path.write_bytes(good)
            for extra in {*_files(folder)} - {*files}:
                extra.unlink()

    def _answer(self, folder: Path) -> str:
        """What a damaged finished run says when it is run once more."""
        copy = Path(shutil.copytree(folder, self._fresh()))
        ended = outcome(start(run(self.method, copy)))
        if ended in (REFUSED, TRACEBACK):
            verdict = ended
        else:
            lines = (copy / "metrics.jsonl").read_text()
            verdict = SAME if lines == (self.whole / "metrics.jsonl").read_text() else SILENT
        shutil.rmtree(copy)
        return verdict

    def flip_stopped(self, number: int, draw: random.Random) -> Iterator[str]:
        """One bit of a run that was stopped half-way, which then goes on."""
        calls = count_calls(run(self.method, self._fresh()))
        done = 0
        while done < number:
            folder = self._fresh()
            stopped = kill_at_call(draw.randint(calls // 3, calls))
            if outcome(start(run(self.method, folder), stopped)) != KILLED:
                continue
            files = _files(folder)
            if not files:
                continue
            place = _flip(draw.choice(files), draw)
            done += 1
            ended = outcome(start(run(self.method, folder)))
            if ended == DONE:
                ended = SAME if final_bits(folder) == self.wanted else SILENT
            yield _told(ended, place)
            shutil.rmtree(folder)

    def two_writers(self, number: int, draw: random.Random) -> Iterator[str]:
        """Two processes that want one folder at the same time."""
        for _ in range(number):
            folder = self._fresh()
            children = [start(run(self.method, folder)) for _ in range(2)]
            ends = [outcome(child) for child in children]
            if TRACEBACK in ends or DONE not in ends:
                yield TRACEBACK if TRACEBACK in ends else LOST
            else:
                yield self._end(folder)
            shutil.rmtree(folder)


def flip_caches(number: int, draw: random.Random, root: Path) -> Iterator[str]:
    """One bit of the image cache, the features or the label table, which are then read in full."""
    pictures = root / "pictures"
    pictures.mkdir()
    noise = np.random.default_rng(0)
    paths = []
    for index in range(100):
        paths.append(pictures / f"{index}.png")
        Image.fromarray(noise.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(paths[-1])
    files = ImageFiles(paths)
    labels = noise.integers(0, 2, (100, 5)).astype(np.float32)
    names = [path.name for path in paths]
    table = root / "annotations"
    table.write_text("the annotations")
    images, vectors = root / "images", root / "vectors"
    frozen = FrozenFeatures("test_efficientnet", pretrained=None, image_size=32, folder=vectors)

    def read_images() -> bytes:
        cache = cached_images(files, files.contents(), 12, images)
        return b"".join(cache[index].tobytes() for index in range(100))

    def read_features() -> bytes:
        return frozen(files).numpy().tobytes()

    def read_labels() -> bytes:
        read = cached_table([table], "", pictures, lambda: (names, labels, list("abcde")))
        return repr((read.names, read.labels.tolist(), read.class_names)).encode()

    places = {read_images: images, read_features: vectors, read_labels: root / "cache"}
    wanted = {read: read() for read in places}
    for _ in range(number):
        read = draw.choice(list(places))
        candidates = [path for path in _files(places[read]) if path.suffix in (".npy", ".npz")]
        _flip(draw.choice(candidates), draw)
        try:
            yield SAME if read() == wanted[read] else SILENT
        except ValueError:
            yield REFUSED
        except Exception:
            yield TRACEBACK
        shutil.rmtree(images)
        shutil.rmtree(vectors)
        for reader in places:
            reader()


def soak(experiences: int, method: str, root: Path) -> dict[str, Any]:
    """One long run; what grows with the number of experiences."""
    folder = root / "soak"
    began = time.perf_counter()

    def long() -> None:
        run_experiment(settings(method, epochs=1), folder, benchmark=streams(experiences))

    ended = outcome(start(long))
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    seconds = [json.loads(line)["seconds"] for line in lines]
    tenth = max(len(seconds) // 10, 1)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    note = (
        f"{len(lines)} experiences; metrics.jsonl {(folder / 'metrics.jsonl').stat().st_size / 1e6:.2f} MB; "
        f"seconds per experience: first tenth {np.mean(seconds[:tenth]):.2f}, last tenth "
        f"{np.mean(seconds[-tenth:]):.2f}; peak {peak:.0f} MB"
    )
    verdict = SAME if ended == DONE and not verify(folder)[0].problems else LOST
    row = {"campaign": "soak", "method": method, "tried": 1, verdict: 1, "note": note}
    return row | {"seconds": round(time.perf_counter() - began)}


def _files(folder: Path) -> list[Path]:
    return sorted(
        p for p in folder.rglob("*") if p.is_file() and p.stat().st_size and p.name != ".lock"
    )


def _flip(path: Path, draw: random.Random) -> str:
    """Flip one bit of a file; where."""
    content = bytearray(path.read_bytes())
    byte, bit = draw.randrange(len(content)), draw.randrange(8)
    content[byte] ^= 1 << bit
    path.write_bytes(content)
    return f"{path.parent.name}/{path.name}, byte {byte} of {len(content)}, bit {bit}"


def _told(verdict: str, place: str) -> str:
    """Print which bit ended in something that must not be, so that it can be flipped again."""
    if verdict in (TRACEBACK, SILENT):
        print(f"{verdict}: {place}", flush=True)
    return verdict


__all__ = ["FAULTS", "Subject", "flip_caches", "soak"]
