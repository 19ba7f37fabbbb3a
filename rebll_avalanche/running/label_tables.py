"""The fingerprint of the label table a run was trained on, to refuse one edited since."""

from __future__ import annotations

import json
from pathlib import Path

from rebll_avalanche.benchmarks.table_rows import changed_rows, fingerprint
from rebll_avalanche.errors import ChangedError, DamagedError
from rebll_avalanche.files import write_text
from rebll_avalanche.run_files import LABEL_TABLES


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
