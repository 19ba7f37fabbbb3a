"""The trials of a search, and their file; without Ray."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from rebll_avalanche.configuration.config import Config, kinds_of
from rebll_avalanche.configuration.recipe import merged, nested
from rebll_avalanche.configuration.space import Choice
from rebll_avalanche.configuration.values import from_text
from rebll_avalanche.errors import ChangedError, DamagedError
from rebll_avalanche.files import write_text

SEARCH, TRIALS, BEST = "search.yaml", "trials.csv", "best.yaml"
RUNS = "trials"  # a folder, of the runs
METRICS = {"last": "mAP", "average": "AvgmAP"}
RUNNING, FINISHED, STOPPED, FAILED = "running", "finished", "stopped early", "failed"


@dataclass(frozen=True)
class Search:
    """Settings of a search.

    Attributes:
        config: All other settings; evaluated on the "valid" stream.
        space: The settings to choose, and between which values.
        metric: "last" or "average" mAP.
        stop_after: Trials may be stopped after this many experiences, twice as many, and so on; by default,
            none is, because early results predict the last poorly.
    """

    config: Config
    space: Mapping[str, Choice]
    metric: str = "last"
    stop_after: int | None = None

    def __post_init__(self) -> None:
        if self.config.evaluation.stream != "valid":
            raise ValueError(
                f"settings are never chosen on the {self.config.evaluation.stream} stream: add "
                "--evaluation.stream valid --benchmark.validation_size 0.2 to choose them on held-out "
                "training images"
            )

    def settings(self, point: Mapping[str, Any]) -> Config:
        """The run of a trial."""
        plain = self.config.to_dict()
        for key, value in point.items():
            plain = merged(plain, nested(key, value))
        return Config.from_dict(plain)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which identify the search."""
        space = {key: asdict(choice) for key, choice in self.space.items()}
        for choice in space.values():
            choice["values"] = list(choice["values"])
        own = {"metric": self.metric, "stop_after": self.stop_after, "space": space}
        return own | {"settings": self.config.to_dict()}


@dataclass
class Trial:
    """One row of ``trials.csv``.

    Attributes:
        point: The settings that were tried.
        state: "running", "finished", "stopped early" or "failed".
        experiences: How many it has learned.
        mAP: After the last of them, on held-out training images.
        AvgmAP: Its average over experiences.
        error: Why it failed.
    """

    point: dict[str, Any]
    state: str = RUNNING
    experiences: int = 0
    mAP: float = float("nan")  # noqa: N815 - as in metrics.jsonl
    AvgmAP: float = float("nan")
    error: str = ""

    @property
    def folder(self) -> str:
        """Run folder, relative to that of the search; trials with equal settings share it."""
        text = json.dumps(self.point, sort_keys=True)
        return f"{RUNS}/{hashlib.sha256(text.encode()).hexdigest()[:12]}"


# Columns of trials.csv beside the settings; a run fills in all but the folder.
FILLED_IN = tuple(entry.name for entry in fields(Trial) if entry.name != "point")
COLUMNS = (*FILLED_IN, "folder")


@dataclass
class Trials:
    """The trials of a search and their file.

    Attributes:
        search: The search.
        root: Folder of the search.
        rows: The trials, in order of their start.
    """

    search: Search
    root: Path
    rows: list[Trial] = field(default_factory=list)

    @classmethod
    def read(cls, search: Search, root: Path) -> Trials:
        """Resume a search, or begin one.

        Raises:
            ChangedError: When the folder belongs to another search.
            DamagedError: When a file in it cannot be read.
        """
        trials = cls(search, root)
        about = root / SEARCH
        if about.is_file():
            try:
                known = yaml.safe_load(about.read_text(encoding="utf-8"))
            except (yaml.YAMLError, ValueError) as error:
                raise DamagedError(f"{about} is damaged: {error}; restore a copy of it") from error
            if known != search.to_dict():
                raise ChangedError(
                    f"{root} belongs to a search with other settings or another space, see {about}; "
                    "choose another --folder"
                )
            trials._read_rows()
        else:
            root.mkdir(parents=True, exist_ok=True)
            write_text(about, yaml.safe_dump(search.to_dict(), sort_keys=False))
        return trials

    def _read_rows(self) -> None:
        path, kinds = self.root / TRIALS, kinds_of(self.search.config.method_name)
        if not path.is_file():
            return
        try:
            lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
            for line in lines:
                point = {key: from_text(key, line[key], kinds[key]) for key in self.search.space}
                own: dict[str, Any] = {name: line[name] for name in FILLED_IN}
                own["experiences"] = int(own["experiences"])
                own |= {name: float(own[name]) for name in METRICS.values()}
                self.rows.append(Trial(point, **own))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(
                f"{path} is damaged ({error}); restore a copy of it, or delete it to begin again"
            ) from error

    def write(self) -> None:
        """Write ``trials.csv``."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["trial", *self.search.space, *COLUMNS])
        for number, row in enumerate(self.rows):
            own = [getattr(row, name) for name in COLUMNS]
            writer.writerow([number, *(_text(value) for value in row.point.values()), *own])
        write_text(self.root / TRIALS, text.getvalue())

    def score(self, row: Trial) -> float:
        """The score that the search maximises."""
        return float(getattr(row, METRICS[self.search.metric]))

    def best_first(self) -> list[Trial]:
        """The finished trials, best first."""
        whole = [row for row in self.rows if row.state == FINISHED]
        return sorted(whole, key=self.score, reverse=True)

    def write_best(self) -> Path | None:
        """Write the best trial's settings as a recipe, if there is one."""
        found = self.best_first()
        if not found:
            return None
        path = self.root / BEST
        lines = [
            f"# The best of {len(self.rows)} trials by {self.search.metric} mAP on held-out training images, "
            f"{100 * self.score(found[0]):.2f} %:",
            *(f"#   {key}: {_text(value)}" for key, value in found[0].point.items()),
            "# On the test images, trained on all others:",
            f"#   rebll run {BEST} --evaluation.stream test --benchmark.validation_size 0",
        ]
        recipe = self.search.settings(found[0].point).to_dict()
        text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True)
        write_text(path, "\n".join([*lines, text]))
        return path


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
