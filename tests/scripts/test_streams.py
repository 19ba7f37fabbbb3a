"""Tables of the kinds of stream, from rows."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks" / "streams"

ROWS = """benchmark,scenario,mode,learns,method,later_lr_scale,seed,mAP,AvgmAP,CF1@0.8,OF1@0.8,FPR@0.8
voc,B5-C3,once,head,lwf,1,0,70.0,80.0,50.0,50.0,1.0
voc,B5-C3,once,head,lwf,1,1,72.0,82.0,52.0,50.0,1.0
voc,B5-C3,overlap,head,rebll-best,0.3,0,79.0,88.0,70.0,70.0,1.0
voc,B5-C3,overlap,from blocks.5 on,lwf,1,0,48.0,64.0,40.0,40.0,9.0
"""


def test_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.delitem(sys.modules, "table", raising=False)
    import table

    table.main(csv.DictReader(io.StringIO(ROWS)))
    shown = capsys.readouterr().out
    stage, head = shown.split("voc B5-C3 head")
    assert "| LwF | 48.0 \\| 64.0, 40.0 (1) |  |  |  |" in stage
    assert "| LwF |  |  | 71.0 ± 1.4 \\| 81.0, 51.0 (2) |  |" in head
    assert "| RebLL, best preset, later rate x 0.3 | 79.0 \\| 88.0, 70.0 (1) |  |  |  |" in head
