"""Read text files: detect their encoding and separator, parse their JSON."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

from rebll_avalanche.errors import TableError, check_regular_file

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is a prefix of it
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SEPARATORS = ",;\t"
_QUOTED = re.compile(r'"[^"]*"')

# The last line number of a row, and its cells.
NumberedRow = tuple[int, list[str]]


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file."""
    check_regular_file(path, TableError)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error


def decoded(content: bytes, source: str) -> tuple[str, str]:
    """Decode bytes to text; also return the name of the detected encoding.

    UTF-8, with or without a byte-order mark; UTF-16 and UTF-32 by their mark, UTF-16 also by its zeros;
    otherwise cp1252, the encoding of Windows in Western Europe.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "")
    if not encoding and b"\0" in content[:1000]:
        encoding = "utf-16-le" if content[1:2] == b"\0" else "utf-16-be"
    try:
        if encoding:
            return content.decode(encoding), encoding
        try:
            return content.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            return content.decode("cp1252"), "cp1252"
    except UnicodeDecodeError as error:
        raise TableError(
            f"{source} is not a text in UTF-8, UTF-16 or cp1252 ({error.reason} at byte {error.start}); "
            "save it as CSV in UTF-8"
        ) from error


def separated(text: str, source: str) -> tuple[list[NumberedRow], str]:
    """The non-blank rows of a delimited text, and its separator."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    told = re.fullmatch(r"sep=([,;|\t])", first.strip(" "))  # written by Excel
    bare = _QUOTED.sub("", first)
    found = [letter for letter in bare if letter in SEPARATORS]
    separator = told.group(1) if told else (found[0] if found else ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise TableError(
            f"{source}, line {reader.line_num}: {error}; is a quote not closed?"
        ) from error
    rows = [(line, cells) for line, cells in rows if any(cells)]
    return rows[1:] if told else rows, separator


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file."""
    text, _ = decoded(read_bytes(path), str(path))
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise TableError(f"cannot read {path}: {reason}; the download is incomplete") from error
