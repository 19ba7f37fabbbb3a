"""Read the result files of run folders."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from rebll_avalanche.arguments import check_path
from rebll_avalanche.arrays import read_arrays
from rebll_avalanche.errors import DamagedError, UnsafeError
from rebll_avalanche.manifest import check_manifest
from rebll_avalanche.run_files import (
    CAM_INDEX,
    CAMS,
    CONFIG,
    MEMORY,
    METRICS,
    PICTURE,
    SAME_BITS,
    SAME_EXPERIMENT,
    SCORES,
    check_no_links,
    config_of,
    flat,
    read_settings,
)

# The sections of config.yaml with settings; the others record how the run was made.
DECISIONS = ("benchmark", "model", "method", "training", "evaluation")
# What two methods must share to be compared: the data and the initial network.
SHARED = ("benchmark.", "model.backbone", "model.pretrained", "evaluation.stream")
# First bytes of files that a page may embed, by suffix.
PICTURES = {".jpg": b"\xff\xd8\xff", ".png": b"\x89PNG\r\n\x1a\n"}
# Bytes of a thumbnail in scores.npz: one of 96 px has a few thousand.
LARGEST_PICTURE = 50_000


def _whole_block(block: dict[str, float]) -> dict[str, float]:
    if not {"images", "classes", "right"} <= set(block):
        raise ValueError("a block has images, classes and right")
    return block


# Larger ones are no numbers of anything, and figures cannot place them.
Count = Annotated[int, Field(ge=0, lt=2**53)]
Block = Annotated[dict[str, float], AfterValidator(_whole_block)]


@dataclass(frozen=True)
class Step:
    """What a report uses of one line of ``metrics.jsonl``: results after an experience, as fractions."""

    experience: Count
    classes_seen: Count
    metrics: dict[str, float]
    per_class_ap: dict[str, float] = field(default_factory=dict)
    relabelling: dict[str, float] = field(default_factory=dict)
    relabelling_blocks: list[Block] = field(default_factory=list)
    seconds: float = 0.0
    images_per_second: float | None = None
    peak_memory_bytes: float | None = None
    trainable_parameters: Count | None = None


_STEP = TypeAdapter(Step)


@dataclass(frozen=True)
class Run:
    """A run folder: its configuration and the experiences finished so far."""

    folder: Path
    config: dict[str, Any]
    steps: tuple[Step, ...]

    @property
    def method(self) -> str:
        """The method's name in the registry."""
        return str(self.config.get("method", {}).get("name", "unknown"))

    @property
    def label(self) -> str:
        """The method's name as tables print it."""
        return str(self._as_run.get("label", self.method))

    @property
    def joint(self) -> bool:
        """Whether it is joint training: an upper bound that is not compared and does not forget."""
        return bool(self._as_run.get("joint", False))

    @property
    def seed(self) -> int:
        """The training seed."""
        return int(self.config.get("seed", 0))

    @property
    def preparation(self) -> float | None:
        """Seconds to read the images and, where a frozen backbone is used, to make features of them."""
        seconds = self.config.get("environment", {}).get("preparation_seconds")
        return float(seconds) if isinstance(seconds, int | float) else None

    @property
    def setting(self) -> dict[str, Any]:
        """The settings that two methods must share to be compared."""
        return {key: value for key, value in self._decided.items() if key.startswith(SHARED)}

    @property
    def choices(self) -> dict[str, Any]:
        """All other settings: the method's parameters, the training."""
        return {key: value for key, value in self._decided.items() if not key.startswith(SHARED)}

    @property
    def _as_run(self) -> dict[str, Any]:
        return dict(self.config.get("method_as_run", {}))

    @cached_property
    def _decided(self) -> dict[str, Any]:
        decided = flat({name: self.config[name] for name in DECISIONS if name in self.config})
        decided |= flat({"method": self._as_run.get("parameters", {})})
        return {
            key: value
            for key, value in decided.items()
            if key not in (*SAME_BITS, *SAME_EXPERIMENT)
            # Runs of earlier versions do not have every option of a benchmark: one that is off is left out.
            and not (key.startswith("benchmark.") and (value is None or value is False))
        }

    @property
    def last(self) -> Step:
        """The newest experience."""
        return self.steps[-1]

    @cached_property
    def scores(self) -> dict[str, np.ndarray] | None:
        """``scores``, ``truth`` and ``class_names`` of the last step's images; ``image_names`` if files."""
        stored = _arrays(self.folder / SCORES, "scores", "truth", "class_names")
        if stored and not (
            stored["scores"].shape == stored["truth"].shape
            and len(stored.get("image_names", stored["scores"])) == len(stored["scores"])
        ):
            raise DamagedError(f"{self.folder / SCORES} does not fit together")
        return stored

    @cached_property
    def pictures(self) -> dict[int, bytes]:
        """Small JPEGs that the run has kept of test images, by row of :attr:`scores`."""
        made = {}
        for name, content in (self.scores or {}).items():
            row = name.removeprefix(PICTURE)
            if row == name:
                continue
            made[int(row) if row.isdecimal() else -1] = jpeg = content.tobytes()
            if -1 in made or not jpeg.startswith(PICTURES[".jpg"]) or len(jpeg) > LARGEST_PICTURE:
                raise UnsafeError(f"{self.folder / SCORES}: {name!r} is not a small picture")
        return made

    @cached_property
    def memory(self) -> dict[str, np.ndarray] | None:
        """``labels``, ``provenance``, ``experience`` and ``class_ends``; None without a memory."""
        stored = _arrays(self.folder / MEMORY, "labels", "provenance", "experience", "class_ends")
        if stored and not (
            stored["labels"].ndim == 2
            and stored["labels"].shape == stored["provenance"].shape
            and stored["experience"].shape == stored["labels"].shape[:1]
            and _are_ends(stored["class_ends"], stored["labels"].shape[1])
        ):
            raise DamagedError(f"{self.folder / MEMORY} does not fit together")
        return stored

    @cached_property
    def cams(self) -> list[dict[str, Any]]:
        """The output of ``rebll cam``: test images with class activation maps and scores."""
        path = self.folder / CAMS / CAM_INDEX
        if not path.is_file():
            return []
        try:
            records: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
            for record in records:
                _check_picture(path.parent, record["file"])
                str(record["name"])
                for entry in record["maps"]:
                    _check_picture(path.parent, entry["file"])
                    if not isinstance(entry["score"], int | float):
                        raise TypeError(f"{entry['score']!r} is not a score")
                    entry["label"], entry["present"]
        except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
            raise DamagedError(
                f"{path} is damaged: {error}; `rebll cam` writes it again"
            ) from error
        return records


def read_run(folder: str | Path) -> Run:
    """Read a run folder.

    Raises:
        FileNotFoundError: When the folder is not a run, or has not finished an experience.
        ValueError: When a file in it is damaged, naming file and line.
    """
    check_path("folder", folder, needed=True)
    folder = Path(folder)
    config, metrics = config_of(folder), folder / METRICS
    check_no_links(folder)
    try:
        lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
    except UnicodeDecodeError as error:
        raise DamagedError(f"{metrics} is damaged: {error}") from error
    steps = tuple(
        _step(line, f"{metrics}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    )
    if not steps:
        raise FileNotFoundError(
            f"{folder} has not finished its first experience: {METRICS} is missing or empty"
        )
    run = Run(folder, read_settings(config), steps)
    if not isinstance(run.config.get("seed", 0), int):
        raise DamagedError(f"{config}: the seed must be a number, not {run.config['seed']!r}")
    check_manifest(folder)
    # Read now, so that a damaged file excludes its run and not the whole page.
    _ = run.scores, run.pictures, run.cams
    _check_blocks(run)
    return run


def read_runs(folders: Iterable[str | Path]) -> tuple[list[Run], list[str]]:
    """Read every run folder, and collect the reasons for those left out.

    Args:
        folders: Run folders, or folders that contain run folders at any depth.

    Returns:
        The runs in order of their paths, and one message for each folder that was left out.
    """
    runs, left_out = [], []
    found: dict[Path, None] = {}
    for folder in map(Path, folders):
        inside = [path.parent.relative_to(folder) for path in sorted(folder.rglob(CONFIG))]
        # Hidden folders are still being written.
        whole = [folder / run for run in inside if not any(p.startswith(".") for p in run.parts)]
        found |= dict.fromkeys(whole or [folder])
    for folder in found:
        try:
            runs.append(read_run(folder))
        except (OSError, ValueError) as error:
            left_out.append(str(error))
    return runs, left_out


def _check_blocks(run: Run) -> None:
    """Refuse blocks of relabelled labels that lie outside of the matrix of memory."""
    if run.memory is None:  # then no figure shows them
        return
    experiences = range(len(run.memory["class_ends"]))
    for block in run.last.relabelling_blocks:
        if not (block["images"] in experiences and block["classes"] in experiences):
            raise DamagedError(
                f"{run.folder / METRICS}: its last line has a block of images {block['images']:g} and "
                f"classes {block['classes']:g}, but {MEMORY} has {len(experiences)} experiences; take both "
                "files from one copy of the run"
            )


def _step(line: str, where: str) -> Step:
    try:
        known = {name: value for name, value in json.loads(line).items() if value is not None}
        return _STEP.validate_python(known)
    except ValidationError as error:
        wrong = error.errors()[0]
        reason = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
        raise DamagedError(f"{where} is not a result: {reason}") from error
    except (ValueError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{where} is not a result: {error}") from error


def _arrays(path: Path, *names: str) -> dict[str, np.ndarray] | None:
    if not path.is_file():
        return None
    stored = read_arrays(path)
    missing = [name for name in names if name not in stored]
    if missing:
        raise DamagedError(f"{path} has no {', '.join(missing)}")
    return stored


def _are_ends(ends: np.ndarray, columns: int) -> bool:
    """Whether these are the ends of ranges of columns, one after the other."""
    if ends.ndim != 1 or not len(ends) or ends.dtype.kind not in "iu":
        return False
    return bool((np.diff(ends, prepend=0) >= 0).all() and ends[-1] <= columns)


def _check_picture(folder: Path, name: Any) -> None:
    """Refuse to embed anything in the page except images of this folder."""
    plain = isinstance(name, str) and Path(name).name == name and "\\" not in name
    if not plain or Path(name).suffix not in PICTURES or not (folder / name).is_file():
        raise UnsafeError(f"{name!r} is not the name of a picture in {folder}")
    with (folder / name).open("rb") as stream:
        if not stream.read(8).startswith(PICTURES[Path(name).suffix]):
            raise UnsafeError(f"{folder / name} is not a picture")
