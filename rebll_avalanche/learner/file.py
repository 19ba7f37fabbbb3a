"""The file format of a learner: tensors and JSON, verified by hash, without executable content.

A ZIP archive of three stored parts: ``learner.json``, ``tensors.safetensors``, and ``hashes.json``, which
holds the SHA-256 of the other two.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from rebll_avalanche.checkpointing.state import pack, storable, unpack
from rebll_avalanche.errors import DamagedError, check_regular_file
from rebll_avalanche.files import replacing

STATE, TENSORS, HASHES = "learner.json", "tensors.safetensors", "hashes.json"
FORMAT = "rebll-learner"
VERSION = 1
# Maximum bytes of ``hashes.json``, which is read before anything is verified.
LARGEST_INDEX = 1 << 16


def write_learner(path: Path, state: dict[str, Any]) -> None:
    """Write a state of plain values and tensors; readers see the old file until it is replaced."""
    tensors: dict[str, Tensor] = {}
    packed = pack(state, tensors)
    text = json.dumps({"format": FORMAT, "version": VERSION, "state": packed})
    parts = {STATE: text.encode(), TENSORS: save(storable(tensors))}
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    parts[HASHES] = json.dumps(hashes).encode()
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in parts.items():
            # A fixed date, so that equal learners give identical bytes.
            archive.writestr(zipfile.ZipInfo(name), content)


def read_learner(path: Path) -> dict[str, Any]:
    """The state that :func:`write_learner` was given.

    Raises:
        DamagedError: When the file is not a learner, or was modified.
    """
    check_regular_file(path, DamagedError)
    with path.open("rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                parts = _parts(archive)
            content = json.loads(parts[STATE])
            if content["format"] != FORMAT or content["version"] > VERSION:
                raise DamagedError(
                    "it was written by a newer version of rebll-avalanche (format "
                    f"{content['version']}, this one reads {VERSION}): pip install -U rebll-avalanche"
                )
            state: dict[str, Any] = unpack(content["state"], load(parts[TENSORS]))
            return state
        except DamagedError as error:
            raise DamagedError(f"{path}: {error}") from error
        # Parsers of a damaged or forged file raise many kinds of errors.
        except Exception as error:
            raise DamagedError(
                f"{path} is not a learner's file, or is damaged; restore a copy of it, or teach a new "
                f"learner. ({type(error).__name__}: {str(error)[:200]})"
            ) from error


def _parts(archive: zipfile.ZipFile) -> dict[str, bytes]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    if set(entries) != {STATE, TENSORS, HASHES}:
        raise DamagedError(f"a learner has the parts {STATE}, {TENSORS} and {HASHES}")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.values()):
        raise DamagedError("its parts are compressed, which this package never does")
    if entries[HASHES].file_size > LARGEST_INDEX:
        raise DamagedError(f"{HASHES} is too large")
    hashes = json.loads(archive.read(HASHES))
    parts = {name: archive.read(name) for name in (STATE, TENSORS)}
    for name, content in parts.items():
        if hashlib.sha256(content).hexdigest() != hashes.get(name):
            raise DamagedError(f"the bytes of {name} are not those that were written")
    return parts
