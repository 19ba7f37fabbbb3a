"""Write files and folders atomically: under a random name, flushed to disk, then renamed.

Readers see either the old or the new content, and a symbolic link in the folder is replaced, never
followed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Suffix of drafts, which distinguishes the leftovers of a killed process from finished files.
DRAFT = ".part"
# In folders shared by several processes, a draft older than this is abandoned.
ABANDONED = 2 * 24 * 3600.0
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_NEW_FILE |= getattr(os, "O_BINARY", 0)  # Windows would translate line ends


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content replaces ``path`` when the block ends without an error."""
    draft = _draft_of(path)
    handle = os.open(draft, _NEW_FILE, 0o666)
    try:
        with _naming(path), os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    flush_folder(path.parent)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """An empty folder that replaces ``path`` when the block ends without an error."""
    with _draft_folder(path) as draft:
        yield draft
        _flush_all(draft)
        if path.is_dir() and not path.is_symlink():  # a folder cannot be renamed over a full one
            grave = _draft_of(path)
            path.rename(grave)
            draft.rename(path)
            shutil.rmtree(grave, ignore_errors=True)
        else:
            os.replace(draft, path)
    flush_folder(path.parent)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """An empty folder that becomes ``path`` when the block ends without an error.

    For content determined by the name: if another process was faster, its folder stays.
    """
    with _draft_folder(path) as draft:
        yield draft
        _flush_all(draft)
        try:
            draft.rename(path)
        except OSError:
            if not path.exists():
                raise
    flush_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder atomically, so that no reader sees half of it."""
    grave = _draft_of(path)
    with suppress(FileNotFoundError):  # already removed by another process
        path.rename(grave)
    shutil.rmtree(grave, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text in UTF-8."""
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def sweep_drafts(folder: Path, *, of: str = "", older_than: float = 0.0) -> None:
    """Remove drafts that a killed process left.

    Args:
        folder: A folder that no other process is writing to, unless one of the others is given.
        of: Only drafts of the file of this name, which no other process is writing.
        older_than: Keep drafts younger than this, in seconds.
    """
    if not folder.is_dir():
        return
    start = f".{of}." if of else ""
    for entry in folder.iterdir():
        if not entry.name.endswith(DRAFT) or not entry.name.startswith(start):
            continue
        with suppress(FileNotFoundError):  # its owner has just finished
            if older_than and time.time() - entry.lstat().st_mtime < older_than:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()


def flush_folder(path: Path) -> None:
    """Flush a folder's entries to disk, where the operating system supports it."""
    with suppress(PermissionError):  # Windows cannot open folders
        _flush(path)


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def draft_folder(path: Path) -> Path:
    """An empty folder beside ``path`` that only this user may open, to be removed by the caller.

    If the process is killed first, :func:`sweep_drafts` removes it.
    """
    draft = _draft_of(path)
    draft.mkdir(mode=0o700)
    return draft


@contextmanager
def _draft_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside ``path``, removed at the end unless renamed."""
    draft = _draft_of(path)
    draft.mkdir()
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _flush_all(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            _flush(file)
    flush_folder(folder)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file name to errors of writing, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{DRAFT}")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
