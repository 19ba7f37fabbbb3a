"""What can be known of a run folder without importing torch."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import yaml

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.files import replacing_folder, write_text
from rebll_avalanche.run_files import CONFIG, METRICS, RESULTS, changes, config_of
from rebll_avalanche.running.environment import versions


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder has learned its last experience."""
    return (folder / RESULTS).is_file()


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``; none if the run has not finished an experience."""
    path = folder / METRICS
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def read_config(folder: Path) -> dict[str, Any]:
    """All of ``config.yaml``.

    Raises:
        FileNotFoundError: When the folder is not a run.
    """
    content: dict[str, Any] = yaml.safe_load(config_of(folder).read_text(encoding="utf-8"))
    return content


def write_config(folder: Path, content: dict[str, Any]) -> None:
    """Write ``config.yaml``."""
    write_text(folder / CONFIG, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def check_unchanged(config: Config, folder: Path) -> None:
    """Refuse to go on with a run as another experiment; warn if its numbers may come out otherwise.

    Raises:
        ValueError: With every difference.
    """
    if not (folder / CONFIG).is_file():
        return
    saved = read_config(folder)
    changed, bits = changes(Config.from_dict(saved).to_dict(), config.to_dict())
    if changed:
        lines = [f"{key}: was {was!r}, is {now!r}" for key, (was, now) in changed.items()]
        raise ValueError(
            f"{folder} belongs to a run with another configuration:\n  "
            + "\n  ".join(lines)
            + "\nrun it as it was, choose another --folder, or delete this one"
        )
    if is_finished(folder):
        return
    for package, number in versions().items():
        before = saved.get("versions", {}).get(package, number)
        if before != number:
            _warn(folder, package, before, number, "results may differ in their last digits")
    for key, (was, now) in bits.items():
        _warn(folder, key, was, now, "roundings and random numbers may be others from here on")


def _warn(folder: Path, what: str, was: Any, now: Any, so: str) -> None:
    warnings.warn(f"{folder} was started with {what} {was}, now it is {now}: {so}", stacklevel=4)


def copy_for_scenario(source: Path, target: Path, scenario: str) -> None:
    """The same results under another scenario, for a method that sees all classes at once."""
    with replacing_folder(target) as draft:
        # Files of a run are replaced, never changed in place, so both folders may share them.
        shutil.copytree(
            source,
            draft,
            copy_function=os.link,
            ignore=shutil.ignore_patterns(".lock"),
            dirs_exist_ok=True,
        )
        content = read_config(draft)
        content["benchmark"]["scenario"] = scenario
        write_config(draft, content)
