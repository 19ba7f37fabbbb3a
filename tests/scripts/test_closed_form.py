"""The closed-form tables: rows in a file, and the page that is drawn from them."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "closed_form"


def test_the_page_is_what_the_rows_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    script = runpy.run_path(str(FOLDER / "report.py"))
    shutil.copy(FOLDER / "notes.md", tmp_path)
    script["write_results"](script["read_rows"](FOLDER / "results.csv"), tmp_path / "RESULTS.md")
    assert (tmp_path / "RESULTS.md").read_text() == (FOLDER / "RESULTS.md").read_text()


def test_rows_are_read_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = runpy.run_path(str(FOLDER / "kept.py"))
    rows = kept["read_rows"](FOLDER / "results.csv")
    kept["write_rows"](tmp_path / "again.csv", rows)
    assert (tmp_path / "again.csv").read_bytes() == (FOLDER / "results.csv").read_bytes()
    assert kept["read_rows"](tmp_path / "nothing.csv") == {}
