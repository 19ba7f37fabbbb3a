"""``rebll table`` from a command line to its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rebll_avalanche.cli import main
from rebll_avalanche.commands.table import parse
from rebll_avalanche.configuration.parse import parse_settings

SMALL = """
benchmark: {name: scenes, scenario: B10-C10, train_size: 60, test_size: 60, image_size: 16}
training: {epochs: 1, batch_size: 32, device: cpu}
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)


def finished() -> dict[str, int]:
    """When each run was finished."""
    return {
        path.parent.name: path.stat().st_mtime_ns for path in Path("runs").glob("*/results.csv")
    }


def test_runs_what_is_missing_and_skips_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["table", "small.yaml", "--methods", "fine-tuning", "joint"]
    assert main([*command, "--seeds", "0"]) == 0
    before = finished()
    both = ["--scenarios", "B10-C10", "B0-C10"]
    assert main([*command, "--seeds", "0", "1", "--jobs", "2", *both]) == 0
    after = finished()
    assert {name: after[name] for name in before} == before
    assert set(after) == {
        f"scenes_{scenario}_{method}_seed{seed}"
        for scenario in both[1:]
        for method in ("fine-tuning", "joint")
        for seed in (0, 1)
    }
    # The ceiling knows no scenario: one run serves all.
    for seed in (0, 1):
        one, other = (Path(f"runs/scenes_{s}_joint_seed{seed}/results.csv") for s in both[1:])
        assert one.samefile(other)
    shown = capsys.readouterr().out
    assert shown.count("Fine-Tuning") == 1 + 2
    assert "Joint (ceiling)" in shown
    endings = {path.name for path in Path("runs").glob("small.*")}
    assert endings == {"small.md", "small.csv", "small.tex", "small.html"}
    assert "<svg" in Path("runs/small.html").read_text()


def test_profiles_sweeps_and_methods_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    study = """
extends: small.yaml
methods: [cls, l2p]
sweep: {method.alpha: [0.5, null]}
profiles:
  quick: {benchmark: {train_size: 40}}
"""
    Path("study.yaml").write_text(study)
    assert main(["table", "study.yaml", "--profile", "quick"]) == 1
    shown = capsys.readouterr()
    assert "scenes_B10-C10_l2p_seed0 is left out: prompts need a vision transformer" in shown.err
    assert "L_cls, alpha 0.5" in shown.out
    assert "L_cls, alpha 1.2" in shown.out
    folder = Path("runs/quick/scenes_B10-C10_cls_alpha=0.5_seed0")
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["trainable_parameters"] > 100_000
    assert last["peak_memory_bytes"] > 1e8
    assert '-sweep-1"' in Path("runs/quick/study.html").read_text()
    assert main(["table", "study.yaml", "--profile", "quick", "--training.lr", "0.5"]) == 2
    assert "training.lr: was 0.001, is 0.5" in capsys.readouterr().err


def test_missing_data_are_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["table", "--benchmark.name", "voc", "--data-root", "nowhere"]
    assert main([*command, "--methods", "lwf", "akd", "--scenario", "B5-C3"]) == 2
    assert capsys.readouterr().err.count("no VOC 2007 trainval images") == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--methods", "rebll", "lfw"], "no method is called 'lfw'; there are lwf"),
        (["--jobs", "0"], "--jobs must be at least 1"),
        (
            ["--methods", "lwf", "--method.reduction", "mean"],
            "--method.reduction is a parameter of rebll, which is not in this table",
        ),
    ],
)
def test_what_is_wrong_is_named(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", *argv]) == 2
    assert message in capsys.readouterr().err


def test_the_command_line_counts_more_than_what_a_recipe_has_for_one_method(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "method: {mem_size: 7}\n"
        "per_method: {csc: {training: {lr: 1.0, epochs: 2}, method: {entropy_weight: 3.0}}}\n"
    )
    argv = [str(recipe), "--methods", "csc", "er", "--training.lr=0.5"]
    csc, er = (entry.config for entry in parse(argv).planned)
    assert (csc.training.lr, csc.training.epochs, er.training.lr) == (0.5, 2, 0.5)
    # A recipe's memory is for the methods that have one; parameters are for the method that is named.
    assert dict(csc.method) == {"name": "csc", "entropy_weight": 3.0}
    assert dict(er.method) == {"name": "er", "mem_size": 7}
    named = [*argv, "--method.name", "csc", "--method.entropy_weight", "0.2"]
    csc, er = (entry.config for entry in parse(named).planned)
    assert dict(csc.method) == {"name": "csc", "entropy_weight": 0.2}
    assert dict(er.method) == {"name": "er", "mem_size": 7}
    config, _ = parse_settings([str(recipe), "--method.name", "csc"], prog="rebll run")
    assert dict(config.method) == {"name": "csc", "entropy_weight": 3.0}
