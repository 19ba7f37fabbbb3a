"""Fingerprint of a label table with four bytes per row, to report later which rows changed."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

WIDTH = 4


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
