"""The live table: a line per run on a terminal, nothing but messages elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from rebll_avalanche.running.live import LiveTable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, lines: int = 24) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setenv("COLUMNS", "60")
    with LiveTable(3) as live:
        for name in ("first", "second", "third"):
            live.show(name, "host/ab12", "experience 1/2")
        live.end("first")
        live.write("second is slow")
        live.show("second", "host/cd34", "x" * 100)
    return stream.getvalue()


def test_a_line_for_each_run_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(Terminal(), monkeypatch)
    assert "first   host/ab12  experience 1/2" in text
    assert "1/3" in text
    assert "second  host/cd34" in text
    assert "x" * 60 not in text  # a longer line would wrap
    after = text[text.index("second  host/cd34") :]
    assert "first" not in after
    assert "second is slow" in text


def test_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(Terminal(), monkeypatch, lines=5)
    assert "and 2 more" in text
    assert "third" not in text.split("and 2 more")[0]


def test_nothing_but_messages_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(io.StringIO(), monkeypatch) == "second is slow\n"
