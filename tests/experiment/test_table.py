"""Methods compared over seeds."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from rebll_avalanche.experiment import table
from rebll_avalanche.experiment.config import Config

THRESHOLD = 0.8
LAST = {"rebll": [0.80, 0.82, 0.81], "lwf": [0.60, 0.63, 0.61], "er": [0.79, 0.83, 0.80]}


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Result files of three methods and a ceiling, three seeds each."""
    made = []
    for method, values in (LAST | {"joint": [0.9, 0.9, 0.9]}).items():
        for seed, value in enumerate(values):
            folder = tmp_path / f"{method}_{seed}"
            folder.mkdir()
            config = Config.from_dict({"method": {"name": method}, "seed": seed}).to_dict()
            config["method_as_run"] = {"label": method.upper() + "_&", "joint": method == "joint"}
            (folder / "config.yaml").write_text(yaml.safe_dump(config))
            metrics = {"mAP": value, "CF1@0.8": 0.5, "OF1@0.8": value, "AvgmAP": value}
            line = {"experience": 0, "classes_seen": 20, "metrics": metrics}
            (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
            made.append(folder)
    return made


def test_the_best_is_marked_and_the_worse_are_tested(folders: list[Path]) -> None:
    rows = {row.method[:-2].lower(): row for row in table.compare(folders, THRESHOLD)}
    assert list(rows) == ["rebll", "lwf", "er", "joint"]
    cells = {name: row.cells[0] for name, row in rows.items()}
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
    ties = [row.cells[1].best for name, row in rows.items() if name != "joint"]
    assert ties == [True, True, True]


def test_the_test_is_paired_over_common_seeds() -> None:
    from scipy.stats import ttest_rel

    first, second = {0: 0.5, 1: 0.6, 2: 0.4, 9: 0.1}, {0: 0.55, 1: 0.62, 2: 0.47}
    expected = ttest_rel([0.5, 0.6, 0.4], [0.55, 0.62, 0.47]).pvalue
    assert table.paired_p_value(first, second) == pytest.approx(expected)
    assert math.isnan(table.paired_p_value({0: 1.0}, {0: 0.5}))
    assert table.paired_p_value({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}) == 1


def test_forms(folders: list[Path]) -> None:
    rows = table.compare(folders, THRESHOLD)
    text = table.as_text(rows, THRESHOLD).splitlines()
    assert text[0].split() == ["Scenario", "Method", "Last", "mAP", "CF1", "OF1", "Avg", "mAP"]
    assert "[81.0 ± 1.0]" in text[2]
    assert "61.3 ± 1.5*" in text[3]
    markdown = table.as_markdown(rows, THRESHOLD)
    assert "| B5-C3 | REBLL_& | **81.0 ± 1.0** |" in markdown
    latex = table.as_latex(rows, THRESHOLD)
    assert r"REBLL\_\& & \textbf{81.0 $\pm$ 1.0}" in latex
    assert latex.count(r"\midrule") == 1
    assert latex.count(r" \\") == 5
    header, *lines = table.as_csv(rows, THRESHOLD).splitlines()
    assert header.startswith("scenario,method,seeds,mAP mean,mAP std,mAP p_value")
    assert len(lines) == 4
    assert all(line.count(",") == header.count(",") for line in lines)


def test_a_single_seed_has_no_deviation(folders: list[Path]) -> None:
    rows = table.compare(folders[::3], THRESHOLD)
    text = table.as_text(rows, THRESHOLD)
    assert "±" not in text
    assert "1 seed, so without deviation" in text


def test_plan_gives_parameters_to_their_own_method() -> None:
    recipe = Config.from_dict({"method": {"name": "rebll", "alpha": 2.0, "mem_size": 8}})
    configs = table.plan(recipe, ["rebll", "er", "lwf"], ["B5-C3", "B4-C2"], [0, 1])
    assert len(configs) == 12
    assert len({config.folder_name for config in configs}) == 12
    methods = {config.method_name: dict(config.method) for config in configs}
    assert methods["rebll"] == {"name": "rebll", "alpha": 2.0, "mem_size": 8}
    assert methods["er"] == {"name": "er", "mem_size": 8}
    assert methods["lwf"] == {"name": "lwf"}
