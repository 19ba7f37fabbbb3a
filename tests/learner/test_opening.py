"""A finished run becomes a learner, which goes on when all that the run has read is gone."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rebll_avalanche import Learner
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.cli import main
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import RebllError
from rebll_avalanche.running.run import run_experiment

TRAINING = {"epochs": 2, "batch_size": 8, "device": "cpu", "tuning": "off"}
CLASSES = ("black", "blue", "green", "red")


@pytest.fixture
def world(tmp_path, draw) -> Callable[..., Path]:
    """Pictures of four classes, and a function that writes a table about some of them."""
    folder = tmp_path / "world"
    folder.mkdir()
    shown = {}
    for number in range(40):
        names = [CLASSES[number % 4]] + [CLASSES[number // 4 % 4]] * (number % 3 == 0)
        draw(sorted(set(names)), number).save(folder / f"{number}.png")
        shown[f"{number}.png"] = set(names)

    def write(name: str, about: tuple[str, ...]) -> Path:
        path = folder / name
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["file", "labels", "split"])
            for number, (file, names) in enumerate(shown.items()):
                said = [each for each in about if each in names]
                if said:
                    writer.writerow([file, ";".join(said), "test" if number > 31 else "train"])
        return path

    return write


def config_for(table: Path, scenario: str, method: dict[str, Any], **more: Any) -> Config:
    benchmark = {"name": "csv", "labels": str(table), "root": str(table.parent), "image_size": 32}
    benchmark |= {"scenario": scenario, **more.pop("benchmark", {})}
    return Config.from_dict(
        {"benchmark": benchmark, "method": method, "training": TRAINING, **more}
    )


@pytest.mark.parametrize("name", ["rebll", "lwf", "der++", "er", "er-ocdm", "podnet"])
def test_a_lesson_is_what_the_next_experience_would_have_been(world, tmp_path, name):
    """The same bits as a run that had one experience more, although the old pictures are gone."""
    method = {"name": name} | ({} if name == "lwf" else {"mem_size": 6})
    whole = config_for(world("all.csv", CLASSES), "B2-C1", method)
    run_experiment(whole, tmp_path / "whole")
    first = config_for(world("first.csv", CLASSES[:3]), "B2-C1", method)
    run_experiment(first, tmp_path / "first")
    # The red ones alone are still there.
    last = world("last.csv", CLASSES[3:])
    there = {line.split(",")[0] for line in last.read_text().splitlines()}
    for picture in (tmp_path / "world").glob("*.png"):
        if picture.name not in there:
            picture.unlink()
    (tmp_path / "world" / "first.csv").unlink()
    learner = Learner.from_run(tmp_path / "first")
    assert [lesson.new_classes for lesson in learner.lessons] == [CLASSES[:2], CLASSES[2:3]]
    learner.learn(last)
    found = learner._know.require_taught()["strategy"]["model"]
    expected = CheckpointFolder(tmp_path / "whole" / "checkpoint").newest().end["strategy"]["model"]
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ({"name": "rebll", "mem_size": 6}, {}),
        ({"name": "krt-r", "mem_size": 6}, {}),
        ({"name": "closed-form"}, {"benchmark": {"features": "test_resnet"}}),
        ({"name": "closed-form", "keep": "vectors"}, {"benchmark": {"features": "test_resnet"}}),
        ({"name": "rebll", "mem_size": 6}, {"benchmark": {"features": "test_resnet"}}),
    ],
)
def test_the_command_needs_nothing_of_the_run(world, tmp_path, capsys, monkeypatch, method, more):
    weights = tmp_path / "weights.safetensors"
    if more:
        from safetensors.torch import save_file

        from rebll_avalanche import build_model

        torch.manual_seed(0)
        save_file(build_model("test_resnet").backbone.network.state_dict(), weights)
        more["benchmark"] |= {"features_pretrained": str(weights)}
        more["model"] = {"backbone": "vector"}
    table = world("first.csv", CLASSES[:3])
    run_experiment(config_for(table, "B2-C1", method, **more), tmp_path / "run")
    new = tmp_path / "new"
    shutil.copytree(tmp_path / "world", new)
    shutil.rmtree(tmp_path / "world")
    more_table = new / "more.csv"
    more_table.write_text(
        "file,labels\n" + "".join(f"{n}.png,{CLASSES[n % 4]}\n" for n in range(0, 36, 3))
    )
    monkeypatch.chdir(tmp_path)
    assert main(["extend", "run", "new/more.csv"]) == 0
    assert "12 pictures from more.csv" in capsys.readouterr().out
    learner = Learner.load("run.rebll")
    assert learner.class_names == CLASSES
    assert len(learner.lessons) == 3
    # More pictures of known classes, and labels that have been corrected, are learned too.
    more_table.write_text(more_table.read_text().replace("0.png,black", "0.png,blue"))
    assert main(["extend", "run", "new/more.csv"]) == 0
    shown = capsys.readouterr().out
    assert "12 of these pictures had been learned before" in shown
    assert "continuing with run.rebll; the run is not read again" in shown
    assert len(Learner.load("run.rebll").lessons) == 4
    assert main(["show", "run.rebll"]) == 0
    assert "experience 0 of the run run; new: black, blue" in capsys.readouterr().out
    assert main(["verify", "run"]) == 0
    if method.get("keep") == "vectors":  # those of the run have no name to find them by
        opened = Learner.from_run("run")
        opened.set_thresholds(dict.fromkeys(opened.class_names, 1.0))  # contradicts all positives
        assert opened.audit(None) == []


def test_a_stopped_extension_blocks_nothing(world, tmp_path, capsys, monkeypatch):
    table = world("first.csv", CLASSES[:3])
    config = config_for(table, "B2-C1", {"name": "rebll", "mem_size": 6})
    run_experiment(config, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    bad, good = world("bad.csv", CLASSES[3:]), world("good.csv", CLASSES[2:])

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rebll_avalanche.learner.teaching.teach", stopped)
        assert main(["extend", "run", str(bad)]) == 130
    assert not (tmp_path / "run.rebll").exists()
    assert main(["extend", "run", str(good)]) == 0
    assert main(["extend", "run", str(tmp_path / "none.csv")]) == 2
    assert "none.csv" in capsys.readouterr().err

    (tmp_path / "run").rename(tmp_path / "other")
    before = (tmp_path / "run.rebll").read_bytes()
    assert main(["extend", "other", str(good), "--to", "run.rebll"]) == 2
    assert "no lesson of the run other" in capsys.readouterr().err
    assert (tmp_path / "run.rebll").read_bytes() == before


def test_a_run_on_scenes_is_opened(tmp_path):
    config = Config.from_dict(
        {
            "benchmark": {"train_size": 60, "test_size": 20, "scenario": "B10-C10"},
            "method": {"name": "rebll", "mem_size": 8},
            "training": TRAINING,
        }
    )
    run_experiment(config, tmp_path / "run")
    learner = Learner.from_run(tmp_path / "run")
    assert len(learner.class_names) == 20
    assert learner.config.benchmark.image_size == 48
    copy = Learner.load(learner.save(tmp_path / "scenes.rebll"))
    picture = torch.zeros(60, 50, 3, dtype=torch.uint8).numpy()
    assert torch.equal(copy.scores(picture), learner.scores(picture))


def test_what_cannot_be_opened_says_why(world, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Learner.from_run(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    assert main(["extend", str(tmp_path / "nowhere"), "x.csv"]) == 2
    assert not (tmp_path / "nowhere.rebll").exists()
    table = world("all.csv", CLASSES)
    config = config_for(table, "B2-C2", {"name": "gem", "mem_size": 4})
    run_experiment(config, tmp_path / "gem")
    with pytest.raises(RebllError, match="gem cannot be a learner"):
        Learner.from_run(tmp_path / "gem")
    config = config_for(table, "B2-C2", {"name": "lwf"})
    run_experiment(config, tmp_path / "lwf")
    (tmp_path / "lwf" / "results.csv").unlink()
    with pytest.raises(RebllError, match="not finished"):
        Learner.from_run(tmp_path / "lwf")
