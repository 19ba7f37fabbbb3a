"""Thousands of damaged inputs at every border, and a count of what each became.

    python benchmarks/reliability/fuzz.py [--mutants 5000] [--seed 0] [--only tables ...]

An input is read, or refused by one of the package's own errors. Anything else is printed with its
seed and makes the exit code 1. The counts are also written to ``fuzz.csv``.
"""

from __future__ import annotations

import argparse
import copy
import csv
import io
import json
import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image

from rebll_avalanche import Learner
from rebll_avalanche.checkpointing.checkpoint import (
    HASHES,
    STATE,
    TENSORS,
    CheckpointFolder,
    Moment,
)
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.recipe import read_recipe
from rebll_avalanche.errors import RebllError
from rebll_avalanche.files import file_hash
from rebll_avalanche.learner.file import read_learner, write_learner
from rebll_avalanche.pictures import picture_problem, read_picture
from rebll_avalanche.run_files import read_settings
from rebll_avalanche.scenario import Scenario
from rebll_avalanche.tables import read_table
from rebll_avalanche.tables.voc import read_objects

LONG = b"file,labels,split,date\na.jpg,cat;dog,train,2024-01-01\nb.jpg,dog,test,2024-01-02\nc.jpg,,test,\n"
WIDE = b"file;cat;dog;place\na.jpg;1;0;Ulm\nb.jpg;;1;Bonn\nc.jpg;-1;0;Ulm\n"
PIECES = [
    *(b"", b",", b";", b"\n", b'"', b"\0", b"1", b"0", b"nan"),
    *(b"file", b"\xff", b"\xef\xbb\xbf", b"cat"),
]
XML = (
    b'<?xml version="1.0"?><annotation><filename>a.jpg</filename><object><name>cat</name><difficult>0'
    b"</difficult></object><object><name>dog</name></object></annotation>"
)
COCO = {
    "images": [{"id": n, "file_name": f"{n}.jpg", "width": 9, "height": 9} for n in range(3)],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    "annotations": [
        {"id": n, "image_id": n, "category_id": 1 + n % 2, "bbox": [0, 0, 1, 1], "iscrowd": n % 2}
        for n in range(3)
    ],
}
TASKS = [
    {
        "id": 1,
        "data": {"image": "/data/upload/1/0a1b2c3d-a.jpg"},
        "annotations": [{"id": 1, "result": [{"type": "choices", "value": {"choices": ["cat"]}}]}],
    },
    {"image": "b.jpg", "choice": {"choices": ["cat", "dog"]}},
]
ODD: list[Any] = [
    *(None, True, -1, 0, 1.5, 10**30, float("nan"), "", "cat", "\0", "1", [], {}, [[]], {"id": 1}),
    10**400,  # no float is so large
]
SETTINGS = {
    "benchmark": {"name": "scenes", "scenario": "B2-C2", "image_size": 8, "features": None},
    "model": {"backbone": "vector", "head": "linear"},
    "method": {"name": "rebll", "mem_size": 6, "alpha": 1.2},
    "training": {"epochs": 1, "lr": 0.05, "schedule": "constant"},
    "evaluation": {"thresholds": [0.8, 0.5]},
    "sweep": {"method.alpha": [0.5, None]},
    "seeds": [0, 1],
    "class_names": ["cat", "dog"],
}
TWISTS = [
    *(b"!!bool x", b"!!int ''", b"&a [*a]", b"? [a]", b"<<: 3"),
    *(b"[", b"{", b": ", b"- ", b"\t", b"!", b"*"),
]
FORMATS = ("AVIF", "BMP", "DDS", "GIF", "ICO", "JPEG", "JPEG2000", "PCX", "PNG", "PPM", "SGI", "TGA", "TIFF",
           "WEBP")  # fmt: skip


def changed_bytes(content: bytes, rng: random.Random, pieces: list[bytes] | None = None) -> bytes:
    """A few bytes changed, taken out or put in; now and then the end is missing."""
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        start = rng.randrange(len(damaged) + 1)
        new = (
            rng.choice(pieces)
            if pieces and rng.random() < 0.5
            else rng.randbytes(rng.randint(0, 4))
        )
        damaged[start : start + rng.choice((0, len(new), rng.randint(0, 9)))] = new
    return bytes(damaged[: rng.randrange(len(damaged) + 1)] if rng.random() < 0.2 else damaged)


def changed_values(content: Any, rng: random.Random) -> Any:
    """Nested lists and dictionaries with one to three values replaced or taken out."""
    damaged = copy.deepcopy(content)
    for _ in range(rng.randint(1, 3)):
        inside, parents = damaged, []
        while isinstance(inside, dict | list) and inside and (not parents or rng.random() < 0.75):
            key = rng.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
            parents.append((inside, key))
            inside = inside[key]
        if parents:
            parent, key = parents[-1]
            if rng.random() < 0.2:
                del parent[key]
            else:
                parent[key] = copy.deepcopy(rng.choice(ODD))  # the next change may go into it
    return damaged


def read_file(folder: Path, name: str, content: bytes) -> None:
    """Read bytes as the table that their file's name promises."""
    path = folder / name
    path.write_bytes(content)
    table = read_table(path)
    assert table.labels.shape == (len(table.images), len(table.class_names))
    table.missing_pictures()


def tables(folder: Path, rng: random.Random) -> None:
    """CSV files in both forms."""
    read_file(folder, "labels.csv", changed_bytes(rng.choice((LONG, WIDE)), rng, PIECES))


def coco(folder: Path, rng: random.Random) -> None:
    """COCO's JSON: its structure, and sometimes its bytes."""
    text = json.dumps(changed_values(COCO, rng)).encode()
    read_file(folder, "coco.json", changed_bytes(text, rng) if rng.random() < 0.1 else text)


def label_studio(folder: Path, rng: random.Random) -> None:
    """Label Studio's JSON."""
    read_file(folder, "tasks.json", json.dumps(changed_values(TASKS, rng)).encode())


def xml(folder: Path, rng: random.Random) -> None:
    """VOC's annotations."""
    path = folder / "a.xml"
    path.write_bytes(changed_bytes(XML, rng, [b"<object>", b"&a;", b"<!--", b"]]>", b"<name>"]))
    read_objects(path)


def pictures(folder: Path, rng: random.Random) -> None:
    """Pictures of every format that is read; the check before a run must say the same as reading."""
    kind, whole = rng.choice(list(WHOLE.items()))
    path = folder / f"picture.{kind.lower()}"
    path.write_bytes(changed_bytes(whole, rng))
    problem = picture_problem(str(path))
    try:
        assert read_picture(path).mode == "RGB"
    except RebllError:
        assert problem, f"{kind} was called whole, but cannot be read"
        raise


def scenarios(folder: Path, rng: random.Random) -> None:
    """Scenarios and class orders of anything."""
    names = ["cat", "dog", "owl"]
    values = [*ODD, *names, "B1-C1", "B0-C0"]
    nested = [
        [rng.choice(values) for _ in range(rng.randint(0, 3))] for _ in range(rng.randint(0, 3))
    ]
    scenario = rng.choice((rng.choice(values), nested))
    order = rng.choice(("alphabetical", rng.choice(values), rng.sample(values, 3)))
    try:
        Scenario.parse(scenario, class_names=names, class_order=order)
    except ValueError as error:
        raise RebllError(str(error)) from error


def settings(folder: Path, rng: random.Random) -> None:
    """Settings as the record of a run and as a recipe: their values, and sometimes their bytes."""
    text = yaml.safe_dump(changed_values(SETTINGS, rng)).encode()
    path = folder / "config.yaml"
    path.write_bytes(changed_bytes(text, rng, TWISTS) if rng.random() < 0.5 else text)
    try:
        Config.from_dict(read_recipe(path)[0])
    except ValueError:  # of settings; no message may be anything else
        read_settings(path)
    try:
        content = read_settings(path)
        of_tables = ("sweep", "seeds")
        Config.from_dict({key: content[key] for key in content if key not in of_tables})
    except ValueError as error:
        raise RebllError(str(error)) from error


def checkpoints(folder: Path, rng: random.Random) -> None:
    """Checkpoints whose hashes fit."""
    kept = CheckpointFolder(folder / "checkpoint")
    moment = Moment(0, Moment.END)
    kept.save(moment, {"model": {"w": torch.ones(2)}, "betas": (0.9, 1), 3: {"a"}, "n": [1, None]})
    place = kept.path / moment.folder
    state = changed_values(json.loads((place / STATE).read_text()), rng)
    (place / STATE).write_text(json.dumps(state))
    if rng.random() < 0.3:
        (place / TENSORS).write_bytes(changed_bytes((place / TENSORS).read_bytes(), rng, [b"F64"]))
    hashes = {name: file_hash(place / name) for name in (TENSORS, STATE)}
    (place / HASHES).write_text(json.dumps(hashes))
    kept.load(moment)


def learners(folder: Path, rng: random.Random) -> None:
    """Learners' files: their bytes, or what they hold, with hashes that fit."""
    path = folder / "pets.rebll"
    if rng.random() < 0.3:
        write_learner(path, TAUGHT)
        path.write_bytes(changed_bytes(path.read_bytes(), rng))
    else:
        write_learner(path, changed_values(TAUGHT, rng))
    learner = Learner.load(path)
    scores = learner.scores(np.zeros((16, 16, 3), np.uint8))
    assert scores.shape == (1, len(learner.class_names))
    assert bool(((scores >= 0) & (scores <= 1)).all())
    assert all(str(lesson) for lesson in learner.lessons)


def taught() -> dict[str, Any]:
    """What the file of a learner of two classes holds."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), dtype=np.uint8)
    learner = Learner(backbone="test_resnet", pretrained=None, image_size=16)
    learner.learn((list(pixels), np.tile(np.eye(2), (4, 1))), class_names=["cat", "dog"])
    with tempfile.TemporaryDirectory() as name:
        return read_learner(learner.save(Path(name) / "pets.rebll"))


def whole_pictures() -> dict[str, bytes]:
    """One small picture in each format that can be written here."""
    picture = Image.effect_noise((16, 12), 90).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    found = {}
    for kind in FORMATS:
        stream = io.BytesIO()
        options = {"exif": exif} if kind in ("JPEG", "PNG", "TIFF", "WEBP", "AVIF") else {}
        try:
            picture.save(stream, kind, **options)
        except (KeyError, OSError, ValueError):
            continue
        found[kind] = stream.getvalue()
    return found


WHOLE = whole_pictures()
TAUGHT = taught()
TARGETS: tuple[Callable[[Path, random.Random], None], ...] = (
    tables, coco, label_studio, xml, pictures, scenarios, settings, checkpoints, learners,
)  # fmt: skip


ENDS = ("read", "refused", "others")


def main() -> int:
    """Count; 1 if anything went outside of the family."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=5000, help="of each kind of input")
    parser.add_argument("--seed", type=int, default=0, help="of the first mutant")
    names = [target.__name__ for target in TARGETS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these inputs")
    parser.add_argument("--counts", type=Path, default=Path(__file__).with_name("fuzz.csv"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # Pillow's, about damaged notes in pictures
    found: list[tuple[Any, ...]] = [("input", "mutants", *ENDS)]
    others: list[list[str]] = []  # rows of inputs that are not tried now
    if arguments.counts.exists():
        with arguments.counts.open(newline="") as stream:
            others = [row for row in list(csv.reader(stream))[1:] if row[0] not in arguments.only]
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where flushing costs nothing
    with tempfile.TemporaryDirectory(dir=memory) as name:
        for target in (target for target in TARGETS if target.__name__ in arguments.only):
            counts: Counter[str] = Counter()
            for number in range(arguments.seed, arguments.seed + arguments.mutants):
                try:
                    target(Path(name), random.Random(number))
                    counts["read"] += 1
                except RebllError:
                    counts["refused"] += 1
                except Exception:
                    counts["others"] += 1
                    if counts["others"] <= 3:
                        print(f"{target.__name__}, seed {number}:", file=sys.stderr)
                        traceback.print_exc()
            found.append((target.__name__, counts.total(), *(counts[end] for end in ENDS)))
            print(dict(zip(found[0], found[-1], strict=True)), flush=True)
            with arguments.counts.open("w", newline="") as stream:
                csv.writer(stream, lineterminator="\n").writerows([*found, *others])
    return 1 if any(row[-1] for row in found[1:]) else 0


if __name__ == "__main__":
    sys.exit(main())
