"""What people see while a run goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tqdm import tqdm

from rebll_avalanche.benchmarks import MultiLabelBenchmark
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.running.run import run_experiment


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_on_a_terminal_and_silence_elsewhere(
    terminal: bool,
    tmp_path: Path,
    vectors: MultiLabelBenchmark,
    settings: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    # Drawn at every update, however fast the machine is.
    eager = partial(tqdm, mininterval=0, miniters=1)
    monkeypatch.setattr("rebll_avalanche.running.progress.tqdm", eager)
    run_experiment(settings(mem_size=4), tmp_path, benchmark=vectors)
    shown = capsys.readouterr()
    assert shown.out == ""
    if terminal:
        assert "rebll experience 3/3 epoch 2/2" in shown.err
        assert "img/s" in shown.err
        assert "er=" in shown.err
        assert "100%" in shown.err
    else:
        assert shown.err == ""
