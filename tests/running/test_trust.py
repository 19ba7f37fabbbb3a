"""Run folders from elsewhere, or edited, or damaged: noticed, refused, and nothing outside is touched."""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from rebll_avalanche import Learner
from rebll_avalanche.checkpointing.checkpoint import STATE, TENSORS, CheckpointFolder
from rebll_avalanche.cli import main
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import ChangedError, DamagedError, DivergedError, UnsafeError
from rebll_avalanche.inference.predictor import load_run
from rebll_avalanche.report import read_run, read_runs, write_report
from rebll_avalanche.run_files import CHECKPOINT, CONFIG, MANIFEST, METRICS, RESULTS, SCORES
from rebll_avalanche.running.run import run_experiment
from rebll_avalanche.verify import verify


@pytest.fixture(scope="session")
def whole(tmp_path_factory, vectors):
    """A finished run of vectors, and its configuration."""
    config = Config.from_dict(
        {
            "benchmark": {"name": "scenes", "scenario": "B2-C2"},
            "model": {"backbone": "vector"},
            "method": {"name": "rebll", "mem_size": 6},
            "training": {"epochs": 1, "batch_size": 32, "lr": 0.05, "device": "cpu"},
        }
    )
    folder = tmp_path_factory.mktemp("trust") / "run"
    run_experiment(config, folder, benchmark=vectors)
    return config, folder


@pytest.fixture
def run(whole, tmp_path):
    """A copy of that run, to be spoiled."""
    config, folder = whole
    return config, Path(shutil.copytree(folder, tmp_path / "copy"))


def newest(folder: Path) -> Path:
    return max((folder / CHECKPOINT).iterdir())


NAMES = [
    *(".lock", CONFIG, METRICS, RESULTS, SCORES, "memory.npz", MANIFEST, "report.html"),
    *("log.txt", "cam", "tensorboard", CHECKPOINT, "anything"),
]


@pytest.mark.parametrize("name", NAMES)
def test_no_link_in_a_run_folder_is_followed(run, vectors, tmp_path, name, capsys):
    config, folder = run
    victim = tmp_path / "victim"
    if name in ("cam", "tensorboard", CHECKPOINT):
        victim.mkdir()
        (victim / "kept").write_text("precious")
    else:
        victim.write_text("precious")
    before = sorted((path.name, path.is_file()) for path in victim.rglob("*"))
    place = folder / name
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(victim)
    refused = (UnsafeError, FileNotFoundError, DamagedError)
    with pytest.raises(UnsafeError, match="symbolic link"):
        run_experiment(config, folder, benchmark=vectors)
    with pytest.raises(UnsafeError, match="symbolic link"):
        run_experiment(config, folder, benchmark=vectors, start_over=True)
    with pytest.raises(refused):
        Learner.from_run(folder)
    with pytest.raises(refused):
        load_run(folder)
    assert main(["report", str(folder)]) == 2
    assert main(["cam", str(folder)]) == 2
    assert main(["verify", str(folder)]) == 1
    assert place.is_symlink()
    assert sorted((path.name, path.is_file()) for path in victim.rglob("*")) == before
    assert (victim / "kept" if victim.is_dir() else victim).read_text() == "precious"


def test_a_pipe_in_a_run_folder_is_not_waited_for(run, vectors):
    config, folder = run
    (folder / METRICS).unlink()
    os.mkfifo(folder / METRICS)
    with pytest.raises(UnsafeError, match="neither a file nor a folder"):
        run_experiment(config, folder, benchmark=vectors)


def test_a_sound_run_is_sound(run, vectors, capsys):
    config, folder = run
    assert main(["verify", str(folder)]) == 0
    assert "sound" in capsys.readouterr().out
    assert len(run_experiment(config, folder, benchmark=vectors)) == 3
    assert read_run(folder).last.experience == 2


def test_every_file_of_a_run_is_covered(run):
    """One flipped bit somewhere in any file is found."""
    _, folder = run
    generator = np.random.default_rng(0)
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    assert {path.name for path in files} >= {CONFIG, METRICS, RESULTS, SCORES, TENSORS, STATE}
    for path in files:
        good = path.read_bytes()
        for _ in range(3):
            bad = bytearray(good)
            bad[generator.integers(len(bad))] ^= 1 << generator.integers(8)
            path.write_bytes(bad)
            (verdict,) = verify(folder)
            assert verdict.problems, path
        path.write_bytes(good)
    (verdict,) = verify(folder)
    assert not verdict.problems


def test_one_bit_of_any_file_is_noticed_and_changes_no_answer(run, vectors):
    """Twelve bits of every file, spread evenly: seen by ``verify``, and refused or harmless when run."""
    config, folder = run
    answer = run_experiment(config, folder, benchmark=vectors)
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    for path in (path for path in files if path.name != ".lock"):
        good = path.read_bytes()
        for number in range(12):
            damaged = bytearray(good)
            damaged[number * len(good) // 12] ^= 1 << number % 8
            path.write_bytes(damaged)
            assert verify(folder)[0].problems, (path.name, number)
            try:
                assert run_experiment(config, folder, benchmark=vectors) == answer
            except ValueError as error:
                assert folder.name in str(error)  # noqa: PT017
        path.write_bytes(good)
    assert not verify(folder)[0].problems


@pytest.mark.parametrize("name", [METRICS, RESULTS, SCORES])
def test_edited_results_are_not_shown_as_those_of_the_run(run, vectors, name):
    config, folder = run
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content.replace(b"0.", b"0.9", 1) + b" ")
    with pytest.raises(DamagedError, match=f"{name} changed since the run wrote it"):
        run_experiment(config, folder, benchmark=vectors)
    runs, left_out = read_runs([folder])
    assert not runs
    assert name in left_out[0]


def test_a_data_set_may_move_but_a_setting_may_not(run):
    _, folder = run
    content = yaml.safe_load((folder / CONFIG).read_text())
    content["benchmark"]["root"] = "/elsewhere"
    (folder / CONFIG).write_text(yaml.safe_dump(content))
    assert read_run(folder).steps
    assert verify(folder)[0].problems, "verify sees every byte"
    content["training"]["lr"] = 0.1
    (folder / CONFIG).write_text(yaml.safe_dump(content))
    with pytest.raises(DamagedError, match=r"config\.yaml changed"):
        read_run(folder)


@pytest.mark.parametrize("section", ["class_names", "method_as_run"])
def test_what_a_stopped_run_has_recorded_is_not_changed_before_it_goes_on(run, vectors, section):
    """Results depend on it: names of classes, and defaults of the version that began the run."""
    config, folder = run
    (folder / RESULTS).unlink()  # killed right before it was finished
    content = yaml.safe_load((folder / CONFIG).read_text())
    changed = {
        "class_names": content["class_names"][::-1],
        "method_as_run": {"parameters": {"alpha": 9.0}},
    }
    good = (folder / CONFIG).read_bytes()
    (folder / CONFIG).write_text(yaml.safe_dump(content | {section: changed[section]}))
    with pytest.raises(DamagedError, match=r"config\.yaml changed"):
        run_experiment(config, folder, benchmark=vectors)
    (folder / CONFIG).write_bytes(good)
    assert len(run_experiment(config, folder, benchmark=vectors)) == 3


def test_a_lost_configuration_does_not_give_the_weights_to_another_run(run, vectors):
    config, folder = run
    (folder / CONFIG).unlink()
    other = Config.from_dict(config.to_dict() | {"seed": 5})
    with pytest.raises(ChangedError, match="seed: was 0, is 5"):
        run_experiment(other, folder, benchmark=vectors)
    assert not (folder / CONFIG).exists()
    assert len(run_experiment(config, folder, benchmark=vectors)) == 3
    assert not verify(folder)[0].problems


def test_an_edited_configuration_does_not_go_on_with_a_checkpoint(run, vectors):
    config, folder = run
    for name in (RESULTS, MANIFEST):
        (folder / name).unlink()
    other = Config.from_dict(config.to_dict() | {"seed": 5})
    content = yaml.safe_load((folder / CONFIG).read_text()) | {"seed": 5}
    (folder / CONFIG).write_text(yaml.safe_dump(content))
    with pytest.raises(ChangedError, match="seed: was 0, is 5"):
        run_experiment(other, folder, benchmark=vectors)


def test_what_a_kill_leaves_is_swept(run, vectors):
    config, folder = run
    old = newest(folder)
    shutil.copytree(old, old.with_name("experience-0000-end"))
    (folder / CHECKPOINT / ".experience-0001-end.0123.part").mkdir()
    (folder / ".metrics.jsonl.0123.part").write_text("half")
    run_experiment(config, folder, benchmark=vectors)
    assert list((folder / CHECKPOINT).iterdir()) == [old]
    assert not list(folder.glob(".*.part"))


DAMAGE = {
    CONFIG: ["{a: [", "just words", "training: 3", "a: &a [*a]", ""],
    METRICS: ["", "{", "[1]\n", '{"experience": 0}\n', "[" * 100_000],
    SCORES: ["", "PK\x03\x04nonsense"],
    "memory.npz": ["nonsense"],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, text) for name, texts in DAMAGE.items() for text in texts]
)
def test_a_damaged_file_is_one_line_and_costs_one_run(run, whole, vectors, name, content, capsys):
    """Also where no manifest helps, as in runs of earlier versions."""
    config, folder = run
    (folder / MANIFEST).unlink()
    (folder / name).write_text(content)
    if name in (CONFIG, METRICS):
        with pytest.raises(ValueError, match=name):
            run_experiment(config, folder, benchmark=vectors)
    runs, left_out = read_runs([folder, whole[1]])
    assert len(runs) == 1
    assert len(left_out) == 1
    assert name in left_out[0]
    assert write_report(runs, folder / "page.html", left_out=left_out).is_file()


@pytest.mark.parametrize("name", [CONFIG, METRICS, MANIFEST])
def test_bytes_that_are_no_text_are_named(run, name, capsys):
    _, folder = run
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:20] + b"\xf3" + content[21:])
    runs, left_out = read_runs([folder])
    assert not runs
    assert name in left_out[0]
    assert main(["verify", str(folder)]) == 1


def test_deep_state_is_a_damaged_checkpoint(run):
    _, folder = run
    place = newest(folder)
    deep = "[" * 50_000 + "]" * 50_000
    (place / STATE).write_text(deep)
    from rebll_avalanche.files import file_hash

    hashes = {name: file_hash(place / name) for name in (TENSORS, STATE)}
    (place / "sha256.json").write_text(json.dumps(hashes))
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.raises(DamagedError, match="delete that folder"),
    ):
        CheckpointFolder(folder / CHECKPOINT).newest()


def test_a_full_disk_is_a_clean_error_and_keeps_the_last_checkpoint(
    settings, vectors, tmp_path, monkeypatch, final_bits
):
    from safetensors import SafetensorError

    from rebll_avalanche.checkpointing import checkpoint as module

    config, saved = settings(mem_size=6), module.save_file
    calls = iter(range(100))

    def full(*arguments):
        if next(calls) == 3:
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        saved(*arguments)

    monkeypatch.setattr(module, "save_file", full)
    with pytest.raises(OSError, match="No space left on device"):
        run_experiment(config, tmp_path / "full", benchmark=vectors)
    run_experiment(config, tmp_path / "full", benchmark=vectors)
    run_experiment(config, tmp_path / "whole", benchmark=vectors)
    assert final_bits(tmp_path / "full") == final_bits(tmp_path / "whole")


@pytest.mark.parametrize("rate", [1e6, 1e30])
def test_diverging_training_stops_within_an_epoch(settings, vectors, tmp_path, rate):
    training = {"lr": rate, "schedule": "constant", "optimizer": "sgd", "epochs": 50}
    with pytest.raises(DivergedError, match=r"training\.lr"):
        run_experiment(settings(training=training), tmp_path / "run", benchmark=vectors)
    for moment in CheckpointFolder(tmp_path / "run" / CHECKPOINT).moments():
        state = CheckpointFolder(tmp_path / "run" / CHECKPOINT).load(moment)
        assert all(bool(t.isfinite().all()) for t in state["model"].values())


def test_a_model_of_nan_does_not_predict(trained_run, tmp_path):
    folder = Path(shutil.copytree(trained_run, tmp_path / "nan"))
    checkpoints = CheckpointFolder(folder / CHECKPOINT)
    (moment,) = checkpoints.moments()
    state = checkpoints.load(moment)
    model = state["strategy"]["model"]
    name = next(name for name in model if name.endswith("weight") and model[name].numel())
    model[name] = torch.full_like(model[name], torch.nan)
    checkpoints.save(moment, state)
    with pytest.raises(DamagedError, match=f"{name} holds numbers that are not finite"):
        load_run(folder)
    assert verify(folder)[0].problems


def test_blocks_of_relabels_stand_in_the_newest_line_alone(whole):
    _, folder = whole
    *earlier, last = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    assert last["relabelling_blocks"]
    assert not any(line["relabelling_blocks"] for line in earlier)


def test_another_number_of_threads_is_mentioned(run, vectors):
    config, folder = run
    for name in (RESULTS, MANIFEST):
        (folder / name).unlink()
    content = yaml.safe_load((folder / CONFIG).read_text())
    content["environment"]["threads"] = 7
    (folder / CONFIG).write_text(yaml.safe_dump(content))
    with pytest.warns(UserWarning, match="started with 7 threads and continues with 1"):
        run_experiment(config, folder, benchmark=vectors)


@pytest.fixture
def own_table(tmp_path, monkeypatch):
    """A small data set of coloured squares and a recipe for it."""
    monkeypatch.chdir(tmp_path)
    colours = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
    lines = ["file,labels"]
    for index in range(18):
        name = list(colours)[index % 3]
        Image.new("RGB", (8, 8), colours[name]).save(f"{index}.png")
        lines.append(f"{index}.png,{name}")
    Path("labels.csv").write_text("\n".join(lines) + "\n")
    Path("recipe.yaml").write_text(
        "benchmark: {name: csv, labels: labels.csv, root: ., scenario: B2-C1, image_size: 8}\n"
        "training: {epochs: 1, batch_size: 8, device: cpu}\nmethod: {mem_size: 2}\n"
    )
    return tmp_path


def test_an_edited_table_is_refused_with_its_rows(own_table, capsys):
    command = ["run", "recipe.yaml", "--folder", "run"]
    assert main(command) == 0
    rows = Path("labels.csv").read_text().splitlines()
    rows[3] = "2.png,green"
    Path("labels.csv").write_text("\n".join([*rows[:-1], rows[-1] + ";red", ""]))
    capsys.readouterr()
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "lines 4, 19 are new or different and in the original, lines 4, 19 are gone" in said
    assert "--start-over" in said
    assert main([*command, "--start-over"]) == 0
    assert main(command) == 0


def entries(state: object, path: tuple = ()):
    """Every place in a nested state."""
    if isinstance(state, dict):
        for key, value in state.items():
            yield (*path, key)
            yield from entries(value, (*path, key))


def test_a_forged_state_fails_cleanly_or_does_no_harm(run, vectors):
    """Its hashes are right, so nobody but the readers themselves can notice."""
    config, folder = run
    for name in (RESULTS, MANIFEST):
        (folder / name).unlink()
    checkpoints = CheckpointFolder(folder / CHECKPOINT)
    (moment,) = checkpoints.moments()
    good = checkpoints.load(moment)
    places = [place for place in entries(good) if place[0] == "strategy"]
    draw = np.random.default_rng(0)
    forged = 0
    for _ in range(25):
        place = places[draw.integers(len(places))]
        inner = state = copy.deepcopy(good)
        for key in place[:-1]:
            inner = inner[key]
        if draw.random() < 0.5:
            del inner[place[-1]]
        else:
            inner[place[-1]] = [None, "text", -1, [], {}, torch.zeros(1)][draw.integers(6)]
        checkpoints.save(moment, state)
        try:
            run_experiment(config, folder, benchmark=vectors)
        except (ValueError, OSError):
            forged += 1
        for name in (RESULTS, MANIFEST):
            (folder / name).unlink(missing_ok=True)
    assert forged > 5
