"""Hash files and check whether they decode as images; both are cached by content.

The results are stored in one SQLite file, so that a second start only reads sizes and times from the file
system. A file counts as unchanged while its path, size, modification time (mtime) and status-change time
(ctime) are the same. The ctime changes with every write, even if a copying tool restores the mtime, so
only a changed clock could hide a modification; delete the SQLite file to read everything again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from rebll_avalanche.errors import RebllError, check_regular_file
from rebll_avalanche.pictures import VERSION

# File-system timestamps are coarse: a file changed just now may change again with the same timestamp.
SETTLED_NANOSECONDS = 2 * 10**9
# Number of files read before their results are stored; an interruption loses at most these.
CHUNK = 1024

Stamp = tuple[int, int, int]

# One table per version of the image reader: what did not decode in one may do so in another.
PROBLEMS = f"problems_{VERSION}"
TABLES = f"""
CREATE TABLE IF NOT EXISTS files
    (path BLOB PRIMARY KEY, size INTEGER, written INTEGER, changed INTEGER, digest TEXT);
CREATE TABLE IF NOT EXISTS {PROBLEMS} (digest TEXT PRIMARY KEY, problem TEXT);
"""
KNOWN = f"""
SELECT size, written, changed, digest, problem FROM files LEFT JOIN {PROBLEMS} USING (digest)
WHERE path = ?
"""
KNOWN_PROBLEM = f"SELECT problem FROM {PROBLEMS} WHERE digest = ?"
REMEMBER_PROBLEM = f"INSERT OR REPLACE INTO {PROBLEMS} VALUES (?, ?)"
REMEMBER_FILE = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class Content:
    """Hash and validity of one file.

    Attributes:
        digest: A hash of its bytes; ``"missing"`` if it cannot be read.
        problem: Why it cannot be used; empty if it can.
    """

    digest: str
    problem: str = ""


def cache_folder() -> Path:
    """This package's cache folder, in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rebll_avalanche"


def contents(
    paths: Sequence[str], check: Callable[[str], str] | None = None, doing: str = "reading files"
) -> list[Content]:
    """Return the content of each file, read only if it is not in the cache.

    Args:
        paths: Any files; missing files are not an error.
        check: Returns the problem of a file, or an empty text. It must depend on the bytes alone,
            because results are cached by content: a copy in another folder is not checked again.
        doing: Label of the progress bar.
    """
    absolute = [os.path.abspath(path) for path in paths]
    memory, found = _open(absolute, check is not None)
    with closing(memory):
        unknown = [path for path in dict.fromkeys(absolute) if path not in found]
        # Reading, hashing and decoding release the global interpreter lock.
        with (
            ThreadPoolExecutor(os.cpu_count()) as pool,
            tqdm(total=len(unknown), desc=doing, disable=None, delay=2) as bar,
        ):
            for start in range(0, len(unknown), CHUNK):
                chunk = unknown[start : start + CHUNK]
                found.update(_read(chunk, check, pool, memory))
                bar.update(len(chunk))
    return [found[path] for path in absolute]


def _recalled(
    memory: sqlite3.Connection, paths: Sequence[str], checked: bool
) -> dict[str, Content]:
    """What is remembered of files that have not changed since."""
    found = {}
    memory.execute("BEGIN")  # one transaction: otherwise every row locks the file anew
    for path in dict.fromkeys(paths):
        row = memory.execute(KNOWN, (os.fsencode(path),)).fetchone()
        if row is None or row[:3] != _stamp(path) or (checked and row[4] is None):
            continue
        if not isinstance(row[3], str) or not isinstance(row[4], str | None):
            raise sqlite3.DatabaseError(f"{row[3]!r} is not a hash")
        found[path] = Content(row[3], row[4] or "")
    memory.rollback()
    return found


def _read(
    paths: list[str],
    check: Callable[[str], str] | None,
    pool: ThreadPoolExecutor,
    memory: sqlite3.Connection,
) -> dict[str, Content]:
    """Hash some files, check those with new content, and store both results."""
    now = time.time_ns()
    found: dict[str, Content] = {}
    settled, unchecked = [], {}
    for path, (stamp, digest, error) in zip(paths, pool.map(_hash, paths), strict=True):
        found[path] = Content(digest, error)
        if stamp is None:
            continue
        if now - max(stamp[1:]) > SETTLED_NANOSECONDS:
            settled.append((os.fsencode(path), *stamp, digest))
        unchecked[digest] = path
    new: dict[str, str] = {}
    if check is not None:
        problems = {}
        for digest in list(unchecked):
            with suppress(sqlite3.Error):  # a damaged row; the file is checked again
                row = memory.execute(KNOWN_PROBLEM, (digest,))
                if (known := row.fetchone()) is not None and isinstance(known[0], str):
                    problems[digest] = known[0]
                    del unchecked[digest]
        new = dict(zip(unchecked, pool.map(check, unchecked.values()), strict=True))
        problems |= new
        found |= {
            path: Content(content.digest, problems[content.digest])
            for path, content in found.items()
            if content.digest in problems
        }
    try:
        with memory:
            memory.executemany(REMEMBER_PROBLEM, new.items())
            memory.executemany(REMEMBER_FILE, settled)
    except sqlite3.Error as error:
        warnings.warn(f"checks of files are not cached: {error}", stacklevel=4)
    return found


def _hash(path: str) -> tuple[Stamp | None, str, str]:
    """Return a file's timestamps, a hash of its bytes, and why it could not be read."""
    stamp = _stamp(path)  # before reading: a later change gives another stamp
    try:
        check_regular_file(path, RebllError)
        with open(path, "rb") as file:
            return stamp, hashlib.blake2b(file.read(), digest_size=16).hexdigest(), ""
    except FileNotFoundError:
        return None, "missing", "missing"
    except (OSError, RebllError) as error:
        return None, "missing", str(error)


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _open(paths: Sequence[str], checked: bool) -> tuple[sqlite3.Connection, dict[str, Content]]:
    """Open the cache of earlier starts, and look files up; an empty one in memory if that fails."""
    place = cache_folder() / "files.sqlite"
    for _ in range(2):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                memory = stack.enter_context(closing(_connect(str(place))))
                found = _recalled(memory, paths, checked)
                stack.pop_all()
                return memory, found
        except (OSError, sqlite3.Error) as error:
            # Locked or out of reach is not damaged; text that cannot be decoded is an OperationalError, too.
            unreachable = isinstance(error, OSError | sqlite3.OperationalError)
            if unreachable and "decode" not in str(error):
                warnings.warn(f"checks of files are not cached: {place}: {error}", stacklevel=3)
                break
            warnings.warn(f"{place} is damaged ({error}) and will be rebuilt", stacklevel=3)
            with suppress(OSError):
                place.unlink(missing_ok=True)
    return _connect(":memory:"), {}


def _connect(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(place, timeout=60)
    try:
        (verdict,) = connection.execute("PRAGMA quick_check").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        connection.executescript(TABLES)
    except sqlite3.Error:
        connection.close()
        raise
    return connection
