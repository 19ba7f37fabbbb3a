"""Methods compared over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.report import comparison
from rebll_avalanche.report.groups import settings_of
from rebll_avalanche.report.runs import read_run
from rebll_avalanche.report.table import Row, paired_p_value, setting_table

THRESHOLDS = (0.8, 0.5)
LAST = {"rebll": [0.80, 0.82, 0.81], "lwf": [0.60, 0.63, 0.61], "er": [0.79, 0.83, 0.80]}


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes the result files of a run."""

    def write(method: str, seed: int, last: float, **options: Any) -> Path:
        folder = tmp_path / f"{method}_{seed}_{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        settings = {"method": {"name": method, **options}, "seed": seed}
        config = Config.from_dict(settings).to_dict()
        config["method_as_run"] = {"label": method.upper() + "_&", "joint": method == "joint"}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        metrics = {"mAP": last, "CF1@0.8": 0.5, "OF1@0.8": last, "FPR@0.8": last / 10}
        line = {
            "experience": 0,
            "classes_seen": 20,
            "metrics": metrics | {"AvgmAP": last, "CF1@0.5": 0.4},
            "seconds": 90.0,
            "peak_memory_bytes": 2e9,
            "trainable_parameters": 3_500_000,
        }
        (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
        return folder

    return write


@pytest.fixture
def folders(write_run: Callable[..., Path]) -> list[Path]:
    """Result files of three methods and a ceiling, three seeds each."""
    return [
        write_run(method, seed, value)
        for method, values in (LAST | {"joint": [0.9, 0.9, 0.9]}).items()
        for seed, value in enumerate(values)
    ]


def compared(folders: list[Path]) -> list[Row]:
    return comparison.compare([read_run(folder) for folder in folders], THRESHOLDS)


def test_rows_are_sorted_the_best_marked_and_the_worse_tested(folders: list[Path]) -> None:
    rows = {row.group.label[:-2].lower(): row for row in compared(folders)}
    assert list(rows) == ["joint", "rebll", "er", "lwf"]
    cells = {name: row.cells["mAP"] for name, row in rows.items()}
    assert cells["rebll"].best
    assert not cells["er"].best
    assert cells["lwf"].worse
    assert not cells["er"].worse  # close to the best, up and down
    assert not cells["joint"].best  # a ceiling does not compete
    assert math.isnan(cells["joint"].p_value)
    spread = cells["lwf"].spread
    assert spread is not None
    assert spread.mean == pytest.approx(0.6133, abs=1e-4)
    assert spread.std == pytest.approx(0.01528, abs=1e-5)
    ties = [row.cells["CF1@0.8"].best for name, row in rows.items() if name != "joint"]
    assert ties == [True, True, True]
    assert [row.cells["FPR@0.8"].best for row in rows.values()] == [False, False, False, True]
    assert rows["rebll"].of_joint == pytest.approx(0.9)
    assert (rows["er"].seconds, rows["er"].peak_bytes, rows["er"].parameters) == (90, 2e9, 3.5e6)


def test_what_prints_the_same_is_as_good_here_and_in_the_report(
    write_run: Callable[..., Path],
) -> None:
    values = {"rebll": (0.8101, 0.8102), "er": (0.8100, 0.8101), "lwf": (0.5, 0.6)}
    folders = [write_run(m, seed, value) for m in values for seed, value in enumerate(values[m])]
    cells = [row.cells["mAP"] for row in compared(folders)]
    assert [cell.best for cell in cells] == [True, True, False]
    assert [math.isnan(cell.p_value) for cell in cells] == [True, True, False]
    (setting,) = settings_of([read_run(folder) for folder in folders])
    rows = setting_table(setting).rows
    assert [row.cells["mAP"].best for row in rows] == [True, True, False]


def test_the_values_of_a_sweep_are_rows(write_run: Callable[..., Path]) -> None:
    folders = [write_run("rebll", 0, 0.5 + alpha / 10, alpha=alpha) for alpha in (0.5, 1.0)]
    rows = compared(folders)
    assert [row.group.label for row in rows] == ["REBLL_&, alpha 1", "REBLL_&, alpha 0.5"]
    assert rows[0].cells["mAP"].best


def test_the_test_is_paired_over_common_seeds() -> None:
    from scipy.stats import ttest_rel

    first, second = {0: 0.5, 1: 0.6, 2: 0.4, 9: 0.1}, {0: 0.55, 1: 0.62, 2: 0.47}
    expected = ttest_rel([0.5, 0.6, 0.4], [0.55, 0.62, 0.47]).pvalue
    assert paired_p_value(first, second) == pytest.approx(expected)
    assert math.isnan(paired_p_value({0: 1.0}, {0: 0.5}))
    assert paired_p_value({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}) == 1


def test_forms(folders: list[Path]) -> None:
    rows = compared(folders)
    text = comparison.as_text(rows, THRESHOLDS).splitlines()
    headings = "Setting Method Last mAP CF1 OF1 FPR Avg mAP Of Joint Minutes Peak GB Parameters, M"
    assert text[0].split() == headings.split()
    assert "JOINT_& (ceiling)" in text[2]
    assert "[81.0 ± 1.0]" in text[3]
    assert text[3].split()[-4:] == ["0.900", "1.5", "2.0", "3.50"]
    assert "61.3 ± 1.5*" in text[5]
    markdown = comparison.as_markdown(rows, THRESHOLDS)
    assert "| Drawn scenes B5-C3 | REBLL_& | **81.0 ± 1.0** |" in markdown
    assert "| CF1@0.5 | OF1@0.5 | FPR@0.5 |" in markdown  # the second threshold beside
    latex = comparison.as_latex(rows, THRESHOLDS)
    assert r"REBLL\_\& & \textbf{81.0 $\pm$ 1.0}" in latex
    assert latex.count(r"\midrule") == 1
    assert latex.count(r" \\") == 5
    header, *lines = comparison.as_csv(rows, THRESHOLDS).splitlines()
    assert header.startswith("setting,method,ceiling,seeds,mAP mean,mAP std,mAP p_value")
    assert header.endswith("of_joint,seconds,peak_bytes,parameters")
    assert len(lines) == 4
    assert all(line.count(",") == header.count(",") for line in lines)


def test_a_single_seed_has_no_deviation(folders: list[Path]) -> None:
    rows = compared(folders[::3])
    text = comparison.as_text(rows, THRESHOLDS)
    assert "±" not in text
    assert "1 seed, so without deviation" in text
    some = comparison.as_text(compared(folders[:4]), THRESHOLDS)
    assert "1 to 3 seeds" in some
