"""Files that are damaged, and what is noticed of it."""

from __future__ import annotations

import random
from pathlib import Path

from rebll_avalanche.run_files import LOCK
from rebll_avalanche.verify import verify

BLOCK = 4096
HEAD = 512  # where formats say what follows


def files_of(folder: Path) -> list[Path]:
    """Files with content; a lock's is only for people."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_size and not path.name.endswith(LOCK)
    )


def damage(path: Path, draw: random.Random) -> str:
    """Mostly one flipped bit; else the end cut off, a block of zeros, or the file gone. What and where.

    Every other time it happens at the head of the file.
    """
    good = path.read_bytes()
    content, said = bytearray(good), "gone"
    kind, place = draw.random(), draw.randrange(draw.choice((len(good), min(HEAD, len(good)))))
    if kind >= 0.9:
        path.unlink()
    else:
        if kind >= 0.8:
            said = f"cut at byte {place}"
            del content[place:]
        elif kind >= 0.7:
            said = f"zeros from byte {place}"
            content[place : place + BLOCK] = bytes(len(content[place : place + BLOCK]))
        if content == good:  # the block was one of zeros already
            bit = draw.randrange(8)
            said = f"bit {bit} of byte {place}"
            content[place] ^= 1 << bit
        path.write_bytes(content)
    return f"{path.parent.name}/{path.name}, {len(good)} bytes: {said}"


def noticed(folder: Path) -> bool:
    """Whether ``rebll verify`` has anything to say about it."""
    try:
        return any(verdict.problems or verdict.notes for verdict in verify(folder))
    except FileNotFoundError:  # nothing is left
        return True
