"""A search on Ray: taken up in the middle, with trials that end in every possible way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rebll_avalanche.cli import main
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.parse import parse_settings
from rebll_avalanche.configuration.space import parse_space
from rebll_avalanche.errors import ChangedError, DamagedError
from rebll_avalanche.running.folder import is_finished
from rebll_avalanche.running.run import run_experiment
from rebll_avalanche.running.search import run_search
from rebll_avalanche.running.trials import Search, Trial, Trials

SETTINGS: dict[str, Any] = {
    "benchmark": {
        "scenario": "B10-C10",
        "train_size": 60,
        "test_size": 10,
        "validation_size": 0.4,
        "image_size": 16,
    },
    "method": {"name": "fine-tuning"},
    "training": {"epochs": 2, "batch_size": 8, "schedule": "constant", "device": "cpu"},
    "evaluation": {"stream": "valid"},
}


def search(*texts: str, **options: Any) -> Search:
    config = Config.from_dict(SETTINGS)
    return Search(config, parse_space(texts, config), **options)


@pytest.mark.filterwarnings("ignore")  # Ray's own, about its versions to come
def test_a_search_goes_on_and_ends_in_a_recipe(
    tmp_path: Path, cluster: Any, final_bits: Any
) -> None:
    wanted = search("training.lr=0..1e30", stop_after=1)
    trials = Trials.read(wanted, tmp_path / "search")
    # What a search leaves that was killed: a trial that failed, and three under way.
    trials.rows = [Trial({"training.lr": 1e25}, "failed", error="it diverged")]
    trials.rows += [Trial({"training.lr": lr}) for lr in (0.003, 0.0, 1e30)]
    trials.write()

    trials = Trials.read(wanted, tmp_path / "search")
    seen: list[str] = []
    run_search(
        trials,
        4,
        address=cluster.address,
        jobs=1,
        on_progress=lambda name, row: seen.append(f"{name} {row and row.state}"),
    )
    failed, good, idle, diverged = Trials.read(wanted, tmp_path / "search").rows
    assert failed.error == "it diverged"
    assert (good.point, good.state, good.experiences) == ({"training.lr": 0.003}, "finished", 2)
    assert (idle.state, idle.experiences) == ("stopped early", 1)
    assert idle.mAP < good.mAP
    assert diverged.state == "failed"
    assert "diverged" in diverged.error
    assert math.isnan(diverged.mAP)
    assert "trial 1 finished" in seen
    assert not is_finished(trials.root / idle.folder)

    best = trials.write_best()
    assert best is not None
    config, _ = parse_settings([str(best)], prog="rebll run")
    assert config == wanted.settings({"training.lr": 0.003})
    run_experiment(config, tmp_path / "alone")
    assert final_bits(trials.root / good.folder) == final_bits(tmp_path / "alone")
    run_search(trials, 4, address="nowhere:1")  # there is nothing left to do


@pytest.mark.filterwarnings("ignore")
def test_optuna_proposes_what_is_not_known_yet(tmp_path: Path, cluster: Any) -> None:
    wanted = search("training.lr=1e-4..1e-2:log", "training.batch_size=8,16", metric="average")
    trials = Trials.read(wanted, tmp_path)
    trials.rows = [Trial({"training.lr": 1e-3, "training.batch_size": 8}, "finished", 2, 0.1, 0.2)]
    run_search(trials, 2, address=cluster.address)
    first, second = trials.rows
    assert trials.score(first) == 0.2
    assert second.state == "finished"
    assert second.point != first.point
    assert 1e-4 <= second.point["training.lr"] <= 1e-2
    assert second.point["training.batch_size"] in (8, 16)


def test_test_images_never_choose() -> None:
    config = Config.from_dict(SETTINGS | {"evaluation": {"stream": "test"}})
    with pytest.raises(ValueError, match="never chosen on the test stream"):
        Search(config, parse_space(["training.lr=0..1"], config))


def test_a_folder_belongs_to_one_search(tmp_path: Path) -> None:
    trials = Trials.read(search("training.lr=0..1", "model.freeze_until=null,blocks"), tmp_path)
    trials.rows = [Trial({"training.lr": 0.1, "model.freeze_until": None}, "finished", 2, 0.3, 0.4)]
    trials.write()
    assert Trials.read(trials.search, tmp_path).rows == trials.rows
    with pytest.raises(ChangedError, match="another space"):
        Trials.read(search("training.lr=0..2"), tmp_path)
    (tmp_path / "trials.csv").write_text("trial,training.lr\n0,0.1\n")
    with pytest.raises(DamagedError, match=r"trials\.csv is damaged"):
        Trials.read(trials.search, tmp_path)


def test_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--trials", "2"]) == 2
    assert "give --space" in capsys.readouterr().err
    assert main(["tune", "--space", "training.lr=0..1"]) == 2
    assert "never chosen on the test stream" in capsys.readouterr().err
