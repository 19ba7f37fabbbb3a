"""The closed-form tables: rows in a file, and the page that is drawn from them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "closed_form"


def test_the_page_is_what_the_rows_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    script = runpy.run_path(str(FOLDER / "report.py"))
    rows = script["read_rows"](FOLDER / "results.csv")
    script["write_pages"](rows, tmp_path)
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.startswith((FOLDER / "notes.md").read_text().rstrip())
    row = rows["voc-lite0 B5-C3"]["Closed form"]
    shown = next(line for line in text.splitlines() if line.startswith("| Closed form |"))
    assert any(
        line.startswith(f"| Closed form | {100 * row['last']['mAP']:.1f} |")
        for line in text.split("## VOC 2007, EfficientNet-Lite0 at 224 px")[1].splitlines()
    ), shown
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")


def test_rows_are_read_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = runpy.run_path(str(FOLDER / "kept.py"))
    rows = kept["read_rows"](FOLDER / "results.csv")
    kept["write_rows"](tmp_path / "again.csv", rows)
    assert (tmp_path / "again.csv").read_bytes() == (FOLDER / "results.csv").read_bytes()
    assert kept["read_rows"](tmp_path / "nothing.csv") == {}
