"""Wrong values for every option and argument of every command, and a count of what each became.

    python benchmarks/reliability/options.py [--commands learn predict ...] [--counts options.csv]

The options are read from the parsers themselves. A value is accepted, or refused with exit code 1 or 2
and one line; anything else (a traceback, several lines, no end within the time limit) is printed, and
makes the exit code 1. The row of every command that is tried is written to ``options.csv``.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NUMBERS = ("x", "", "nan", "inf", "-1", "0", "2.5", "1e400", "9" * 400)
TEXTS = (
    "",
    "-1",
    "no-such-file",
    "folder",
    "text.txt",
    "noise.bin",
    "pipe",
    "folder/none/x",
    "x" * 5000,
)
ENDS = ("accepted", "refused", "traceback", "unclear", "endless")
BAD = ENDS[2:]
SECONDS = 120
SMALL = (
    *(
        "--benchmark.scenario",
        "B10-C10",
        "--benchmark.train_size",
        "20",
        "--benchmark.test_size",
        "10",
    ),
    *("--training.epochs", "1", "--training.device", "cpu"),
)
# What makes a command do something small when the tried value is accepted; {new} is a free name.
VALID = {
    "run": [*SMALL, "--folder", "{new}"],
    "table": [*SMALL, "--methods", "fine-tuning", "--seeds", "0", "--folder", "{new}"],
    "tune": [
        *SMALL, "--benchmark.validation_size", "0.2", "--evaluation.stream", "valid", "--folder", "{new}",
        "--space", "training.lr=0.1,0.2", "--trials", "1",
    ],
    "features": [*SMALL, "--benchmark.features", "test_resnet", "--benchmark.features_pretrained", "null"],
    "report": ["run"],
    "predict": ["pets.rebll", "pictures/0.png"],
    "cam": ["run", "pictures/0.png", "-o", "{new}"],
    "export": ["pets.rebll", "--onnx", "{new}"],
    "extend": ["run", "labels.csv", "--images", "pictures", "--to", "{new}"],
    "card": ["run", "-o", "{new}"],
    "show": [*SMALL, "--to", "{new}"],
    "learn": ["{new}", "labels.csv", "--images", "pictures", "--image-size", "32"],
    "evaluate": ["pets.rebll", "labels.csv", "--images", "pictures"],
    "correct": ["pets.rebll", "labels.csv", "--images", "pictures"],
    "forget": ["pets.rebll"],
    "undo": ["pets.rebll"],
    "suggest": ["pets.rebll", "pictures"],
    "audit": ["pets.rebll"],
    "serve": ["pets.rebll", "--port", "0"],
    "verify": ["run"],
    "doctor": [],
}  # fmt: skip


def actions(command: str) -> list[argparse.Action]:
    """All arguments of a command that take a value, from the parser that prints its help."""
    from rebll_avalanche.cli import main
    from rebll_avalanche.words import Parser

    found: list[argparse.Action] = []

    class Caught(SystemExit):
        pass

    def catch(parser: Any, file: Any = None) -> None:
        found.extend(parser._actions)
        raise Caught(0)

    shown, Parser.print_help = Parser.print_help, catch  # type: ignore[method-assign, assignment]
    try:
        main([command, "--help"])
    except Caught:
        pass
    finally:
        Parser.print_help = shown  # type: ignore[method-assign]
    settings = command != "run"  # all commands with settings share those of run
    return [
        each
        for each in found
        if each.nargs != 0 and each.help is not argparse.SUPPRESS
        and not (settings and any("." in option for option in each.option_strings))
    ]  # fmt: skip


def takes_number(action: argparse.Action) -> bool:
    """Whether nothing but a number can be meant; settings say so in their help."""
    return action.type in (int, float) or bool(re.search(r"type: (int|float),", str(action.help)))


def cases(command: str) -> Iterator[tuple[str, list[str]]]:
    """What is tried, in a few words, and its command line."""
    valid = VALID[command]
    positionals = 0
    for action in actions(command):
        for value in dict.fromkeys(NUMBERS if takes_number(action) else TEXTS + NUMBERS[:4]):
            if action.option_strings:
                option = action.option_strings[-1]
                yield f"{option} {value[:20]!r}", [*valid, f"{option}={value}"]
            elif value and not value.startswith("-"):
                line = list(valid)
                line[positionals : positionals + 1] = [value]
                yield f"{action.dest} {value[:20]!r}", line
        positionals += not action.option_strings


def tried(command: str, line: list[str], place: Path) -> tuple[str, str]:
    """How one command line ends in a process of its own, and what it says."""
    scratch = Path(
        shutil.copytree(place, place.with_name("scratch"), symlinks=True, copy_function=os.link)
    )
    os.mkfifo(scratch / "pipe")
    said = place.with_name("said")
    child = os.fork()
    if not child:
        _do([command, *(part.format(new="new") for part in line)], scratch, said)
    ended = None
    for _ in range(SECONDS * 20):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            ended = os.waitstatus_to_exitcode(status)
            break
        if command == "serve" and said.exists() and b"http://" in said.read_bytes():
            os.kill(child, signal.SIGINT)
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    text = said.read_text(errors="replace")
    said.unlink()
    shutil.rmtree(scratch)
    return _judged(ended, text), text


def _do(arguments: list[str], scratch: Path, said: Path) -> None:
    """Be the command; never return."""
    from rebll_avalanche.cli import main

    code: Any = 99
    try:
        os.chdir(scratch)
        stream = os.open(said, os.O_WRONLY | os.O_CREAT)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1)
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 99)


def _judged(code: int | None, text: str) -> str:
    if code is None:
        return "endless"
    if "Traceback (most recent" in text or code not in (0, 1, 2, 130):
        return "traceback"
    if code in (0, 130):
        return "accepted"
    refusals = [line for line in text.splitlines() if line.startswith("rebll ")]
    # A command may have said other things before, but why it ends is one line.
    clear = code == 1 or (len(refusals) == 1 and text.rstrip().endswith(refusals[0]))
    return "refused" if clear and len(text) < 5000 else "unclear"


def prepared(root: Path) -> Path:
    """A folder with a run, a learner, pictures, a table, and things that are none of these."""
    import numpy as np
    from PIL import Image

    from rebll_avalanche import Learner
    from rebll_avalanche.cli import main

    place = root / "place"
    (place / "pictures").mkdir(parents=True)
    (place / "folder").mkdir()
    draw = np.random.default_rng(0)
    rows = ["file,labels"]
    for number in range(8):
        pixels = draw.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / "pictures" / f"{number}.png")
        rows.append(f"{number}.png,{'cat' if number % 2 else 'dog'}")
    (place / "labels.csv").write_text("\n".join(rows) + "\n")
    (place / "text.txt").write_text("nothing of use\n")
    (place / "noise.bin").write_bytes(draw.bytes(5000))
    learner = Learner(backbone="test_resnet", pretrained=None, image_size=32)
    learner.learn(place / "labels.csv", images=place / "pictures")
    learner.save(place / "pets.rebll", self_contained=True)
    code = main(["run", *SMALL, "--folder", str(place / "run")])
    if code:
        raise RuntimeError("the run that others are tried on has failed")
    return place


def main() -> int:
    """Count; 1 if anything was not told in one line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--commands", nargs="+", choices=VALID, default=list(VALID))
    parser.add_argument("--counts", type=Path, default=Path(__file__).with_name("options.csv"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="options-", dir=memory))
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")
    import torch

    torch.set_num_threads(1)
    found: dict[str, list[Any]] = {}
    if arguments.counts.exists():  # the rows of other commands stay
        with arguments.counts.open(newline="") as stream:
            found = {row[0]: row for row in list(csv.reader(stream))[1:]}
    bad = 0
    try:
        place = prepared(root)
        for name in VALID:
            importlib.import_module(f"rebll_avalanche.commands.{name}")
        for command in arguments.commands:
            counts: Counter[str] = Counter()
            for what, line in cases(command):
                end, said = tried(command, line, place)
                counts[end] += 1
                if end in BAD:
                    print(f"{end}: rebll {command}, {what}\n{said[-1500:]}", flush=True)
            found[command] = [command, counts.total(), *(counts[end] for end in ENDS)]
            print(command, dict(counts), flush=True)
            bad += sum(counts[end] for end in BAD)
            rows = [found[name] for name in VALID if name in found]
            with arguments.counts.open("w", newline="") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerows([["command", "tried", *ENDS], *rows])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
