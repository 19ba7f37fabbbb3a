"""What is done to runs, learners and caches; every trial ends in one word."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from damage import damage, files_of, noticed
from PIL import Image
from processes import (
    DONE,
    KILLED,
    REFUSED,
    TRACEBACK,
    arm,
    count_calls,
    count_changes,
    kill_at_call,
    outcome,
    start,
)
from subjects import File, Run, Subject, run_bits, settings, streams

from rebll_avalanche.benchmarks.cache import cached_images
from rebll_avalanche.benchmarks.features import FrozenFeatures
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.label_cache import cached_table
from rebll_avalanche.files import DRAFT
from rebll_avalanche.running.run import run_experiment
from rebll_avalanche.verify import verify

SAME, LOST, SILENT = "same", "lost", "silent"
# Stops of one run before it may end.
STOPS = 8
# Damaged copies of one stopped run.
COPIES = 10
Trials = Callable[[int, random.Random], Iterator[str]]


class Campaigns:
    """One subject, done once undisturbed, then over and over with something going wrong.

    Args:
        subject: What is done.
        root: Where folders may be made.
    """

    def __init__(self, subject: Subject, root: Path) -> None:
        self.subject = subject
        self.root = root / subject.name.replace(": ", "-")
        self.root.mkdir(parents=True)
        self.whole = self.root / "whole"
        self.number = 0
        subject.work(self.whole)  # here, so that every module is imported before processes part
        self.wanted = subject.bits(self.whole)
        self.answer = subject.answer(self.whole)
        began = time.perf_counter()
        if self._end(self._fresh()) != SAME:
            raise RuntimeError(f"two undisturbed {subject.name} differ, or the second one fails")
        self.seconds = time.perf_counter() - began
        self.calls = count_calls(self._work(self._fresh()))

    def _fresh(self) -> Path:
        self.number += 1
        return self.root / f"trial-{self.number}"

    def _work(self, folder: Path) -> Callable[[], None]:
        return lambda: self.subject.work(folder)

    def _end(self, folder: Path) -> str:
        """Do it to the end, undisturbed, and compare."""
        ended = outcome(start(self._work(folder)))
        if ended != DONE:
            return TRACEBACK if ended == TRACEBACK else LOST
        swept = isinstance(self.subject, File) or not list(folder.rglob(f"*{DRAFT}"))
        if not swept or any(verdict.problems for verdict in verify(folder)):
            return LOST
        return SAME if self.subject.bits(folder) == self.wanted else SILENT

    def _stopped_again_and_again(self, number: int, stop: Callable[[Path], int]) -> Iterator[str]:
        """Disturb until it ends; each disturbance is a trial, judged by the end."""
        while number > 0:
            folder, stops = self._fresh(), 0
            ended = KILLED
            while ended == KILLED and stops < min(number, STOPS):
                ended = outcome(stop(folder))
                stops += ended == KILLED
            verdict = TRACEBACK if ended in (TRACEBACK, REFUSED) else self._end(folder)
            shutil.rmtree(folder, ignore_errors=True)
            trials = max(stops, int(verdict != SAME))  # one that fails unasked is a trial, too
            yield from [verdict] * trials
            number -= trials

    def kill_at_times(self, number: int, draw: random.Random) -> Iterator[str]:
        """SIGKILL from outside."""

        def stop(folder: Path) -> int:
            child = start(self._work(folder))
            time.sleep(draw.uniform(0, self.seconds))
            os.kill(child, signal.SIGKILL)
            return child

        return self._stopped_again_and_again(number, stop)

    def kill_at_calls(self, number: int, draw: random.Random) -> Iterator[str]:
        """SIGKILL right before a call to the file system."""

        def stop(folder: Path) -> int:
            return start(self._work(folder), kill_at_call(draw.randint(1, self.calls)))

        return self._stopped_again_and_again(number, stop)

    def failing(self, fault: str) -> Trials:
        """Trials in which one write, flush or rename goes wrong."""

        def trials(number: int, draw: random.Random) -> Iterator[str]:
            folder = self._fresh()
            changes = count_changes(self._work(folder), folder)
            for _ in range(number):
                folder = self._fresh()
                place = draw.randint(1, changes)
                ended = outcome(start(self._work(folder), arm(fault, place, folder)))
                verdict = TRACEBACK if ended == TRACEBACK else self._end(folder)
                yield _told(verdict, f"{fault} at change {place} of {changes}")
                shutil.rmtree(folder, ignore_errors=True)

        return trials

    def damage_finished(self, number: int, draw: random.Random) -> Iterator[str]:
        """One file of something finished: noticed, or without any effect on what users see."""
        files = [path.relative_to(self.whole) for path in files_of(self.whole)]
        for _ in range(number):
            folder = Path(shutil.copytree(self.whole, self._fresh()))
            place = damage(folder / draw.choice(files), draw)
            seen = noticed(folder)
            ended = outcome(start(lambda folder=folder: self._answers_as_before(folder)))
            # An archive has bytes that mean nothing; in a run, every byte is hashed.
            if not seen and (ended != DONE or isinstance(self.subject, Run)):
                ended = SILENT
            yield _told({DONE: SAME, KILLED: SILENT}.get(ended, ended), place)
            shutil.rmtree(folder)

    def _answers_as_before(self, folder: Path) -> None:
        if self.subject.answer(folder) != self.answer:
            os.kill(os.getpid(), signal.SIGKILL)  # no exception says what this says

    def damage_stopped(self, number: int, draw: random.Random) -> Iterator[str]:
        """One file of something that was stopped half-way, which then goes on."""
        while number > 0:
            stopped = self._fresh()
            stop = kill_at_call(draw.randint(self.calls // 4, self.calls))
            if outcome(start(self._work(stopped), stop)) != KILLED or not files_of(stopped):
                continue
            for _ in range(min(COPIES, number)):
                folder = Path(shutil.copytree(stopped, self._fresh()))
                place = damage(draw.choice(files_of(folder)), draw)
                ended = outcome(start(self._work(folder)))
                yield _told(self._judged(folder) if ended == DONE else ended, place)
                shutil.rmtree(folder)
                number -= 1
            shutil.rmtree(stopped)

    def _judged(self, folder: Path) -> str:
        """What came of it; something finished need not look at its checkpoint again."""
        try:
            if self.subject.bits(folder) == self.wanted:
                return SAME
        except ValueError:
            pass
        return REFUSED if noticed(folder) else SILENT

    def two_writers(self, number: int, draw: random.Random) -> Iterator[str]:
        """Two processes that want one folder at the same time."""
        for _ in range(number):
            folder = self._fresh()
            children = [start(self._work(folder)) for _ in range(2)]
            ends = [outcome(child) for child in children]
            if TRACEBACK in ends or DONE not in ends:
                yield TRACEBACK if TRACEBACK in ends else LOST
            else:
                yield self._end(folder)
            shutil.rmtree(folder)


def kill_commands(number: int, draw: random.Random, root: Path) -> Iterator[str]:
    """SIGKILL of the command line itself, started by its own, which no fork shares anything with."""
    settings = {
        "benchmark.scenario": "B10-C10",
        "benchmark.train_size": 60,
        "benchmark.test_size": 40,
        "method.mem_size": 8,
        "training.epochs": 2,
        "training.batch_size": 16,
        "seed": 0,
    }
    options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]

    def command(folder: Path) -> subprocess.Popen[bytes]:
        call = [sys.executable, "-m", "rebll_avalanche", "run", "--folder", str(folder), *options]
        return subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    whole = root / "command"
    began = time.perf_counter()
    if command(whole).wait():
        raise RuntimeError("the undisturbed command fails")
    seconds = time.perf_counter() - began
    wanted = run_bits(whole)
    while number > 0:
        folder, stops = root / f"command-{number}", 0
        while stops < min(number, STOPS):
            process = command(folder)
            try:
                process.wait(draw.uniform(0, seconds))
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                stops += 1
        process = command(folder)
        said = process.communicate()[1]
        if process.returncode:
            verdict = TRACEBACK if b"Traceback" in said else LOST
        else:
            verdict = SAME if run_bits(folder) == wanted else SILENT
        shutil.rmtree(folder)
        trials = max(stops, int(verdict != SAME))
        yield from [verdict] * trials
        number -= trials


def flip_caches(number: int, draw: random.Random, root: Path) -> Iterator[str]:
    """A file of the image cache, the features, the label table or the known files, then all are read."""
    pictures = root / "pictures-of-caches"
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
    time.sleep(2.1)  # files that are younger are not remembered
    images, vectors, known = root / "images", root / "vectors", root / "cache"
    frozen = FrozenFeatures("test_efficientnet", pretrained=None, image_size=32, folder=vectors)

    def read_images() -> bytes:
        cache = cached_images(files, files.contents(), 12, images)
        return b"".join(cache[index].tobytes() for index in range(100))

    def read_features() -> bytes:
        return frozen(files).numpy().tobytes()

    def read_labels() -> bytes:
        read = cached_table([table], "", pictures, lambda: (names, labels, list("abcde")))
        return repr((read.names, read.labels.tolist(), read.class_names)).encode()

    places: dict[Callable[[], bytes], Sequence[Path]] = {
        read_images: (images, known),
        read_features: (vectors,),
        read_labels: (known,),
    }
    wanted = {read: read() for read in places}
    for _ in range(number):
        read = draw.choice(list(places))
        place = damage(draw.choice([f for p in places[read] for f in files_of(p)]), draw)
        try:
            verdict = SAME if read() == wanted[read] else SILENT
        except ValueError:
            verdict = REFUSED
        except Exception:
            verdict = TRACEBACK
        yield _told(verdict, place)
        if verdict != SAME:
            shutil.rmtree(images)
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
    peaks = [json.loads(line)["peak_memory_bytes"] / 1e6 for line in lines]
    note = (
        f"{len(lines)} experiences; metrics.jsonl {(folder / 'metrics.jsonl').stat().st_size / 1e6:.2f} MB; "
        f"seconds per experience: first tenth {np.mean(seconds[:tenth]):.2f}, last tenth "
        f"{np.mean(seconds[-tenth:]):.2f}; peak after the first tenth {peaks[tenth - 1]:.0f} MB, at the "
        f"end {peaks[-1]:.0f} MB"
    )
    verdict = SAME if ended == DONE and not verify(folder)[0].problems else LOST
    row = {"campaign": "soak", "subject": method, "tried": 1, verdict: 1, "note": note}
    return row | {"seconds": round(time.perf_counter() - began)}


def _told(verdict: str, place: str) -> str:
    """Print what ended in something that must not be, so that it can be done again."""
    if verdict in (TRACEBACK, SILENT, LOST):
        print(f"{verdict}: {place}", flush=True)
    return verdict
