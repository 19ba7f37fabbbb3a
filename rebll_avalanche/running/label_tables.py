"""The fingerprint of the label table a run was trained on, to refuse one edited since.

It has four bytes per row, to tell which rows changed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rebll_avalanche.errors import ChangedError, DamagedError
from rebll_avalanche.files import write_text
from rebll_avalanche.run_files import LABEL_TABLES

WIDTH = 4


def keep_label_table(folder: Path, table: Path) -> None:
    """Record the content of a table."""
    if table.is_file():  # other sources of labels report their own problems
        write_text(folder / LABEL_TABLES, json.dumps({"benchmark": fingerprint(table)}) + "\n")


def check_label_table(folder: Path, table: Path) -> None:
    """Refuse a table that was edited since the run read it; a missing table is not checked.

    Args:
        folder: The run.
        table: The file.

    Raises:
        ChangedError: Naming the lines that changed.
    """
    before = _read(folder).get("benchmark")
    if before is None or not table.is_file():
        return
    changed = changed_rows(before, table)
    if changed:
        raise ChangedError(
            f"{table} was edited since {folder} learned from it: {changed}; put the table back as it was, "
            "start over with --start-over, or choose another --folder"
        )


def _read(folder: Path) -> dict[str, dict[str, str]]:
    path = folder / LABEL_TABLES
    if not path.is_file():
        return {}
    try:
        content: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
        if all(isinstance(entry["sha256"], str) for entry in content.values()):
            return content
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise DamagedError(f"{path} is damaged; restore a copy, or delete it to skip this check")


def fingerprint(path: Path) -> dict[str, str]:
    """The hash of a table and of each of its lines."""
    content = path.read_bytes()
    return {
        "sha256": hashlib.sha256(content).hexdigest(),
        "rows": base64.b64encode(b"".join(_rows(content))).decode("ascii"),
    }


def changed_rows(before: dict[str, str], path: Path) -> str:
    """Describe how a table differs from its :func:`fingerprint`; empty if it does not.

    Args:
        before: The fingerprint.
        path: The current table.
    """
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() == before["sha256"]:
        return ""
    stored = base64.b64decode(before.get("rows", ""))
    old = [stored[place : place + WIDTH] for place in range(0, len(stored), WIDTH)]
    if not old:
        return "it is not the same file"
    new = _rows(content)
    added, gone = _unmatched(new, old), _unmatched(old, new)
    if not added and not gone:
        return "its lines are in another order"
    said = [f"{_lines(added)} new or different"] if added else []
    return " and ".join(said + ([f"in the original, {_lines(gone)} gone"] if gone else []))


def _rows(content: bytes) -> list[bytes]:
    return [
        hashlib.blake2b(line.strip(), digest_size=WIDTH).digest() for line in content.splitlines()
    ]


def _unmatched(lines: Sequence[bytes], others: Sequence[bytes]) -> list[int]:
    """Numbers, from 1, of the lines that are not among the others."""
    left = Counter(others)
    found = []
    for number, line in enumerate(lines, start=1):
        if left[line]:
            left[line] -= 1
        else:
            found.append(number)
    return found


def _lines(numbers: list[int], shown: int = 10) -> str:
    text = ", ".join(map(str, numbers[:shown]))
    more = f" and {len(numbers) - shown} more" if len(numbers) > shown else ""
    return f"line {text} is" if len(numbers) == 1 else f"lines {text}{more} are"
