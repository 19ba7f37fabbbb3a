"""Runs: their files, and that they can be stopped at any moment."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from avalanche.training.plugins import AGEMPlugin, ReplayPlugin
from avalanche.training.plugins.clock import Clock
from timm.models.vision_transformer import VisionTransformer

from rebll_avalanche.benchmarks import MultiLabelBenchmark, multilabel_benchmark
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder, Moment
from rebll_avalanche.checkpointing.foreign import unsaved
from rebll_avalanche.checkpointing.snapshot import random_state, set_random_state
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.models.lanes import LanedViT, LaneHead
from rebll_avalanche.models.prompts import PromptedViT, PromptHead
from rebll_avalanche.running import folder as folder_module
from rebll_avalanche.running import run as run_module
from rebll_avalanche.running.build import build_benchmark
from rebll_avalanche.running.folder import locked
from rebll_avalanche.running.recorder import Recorder
from rebll_avalanche.running.run import run_experiment
from rebll_avalanche.running.tuning import as_recorded
from rebll_avalanche.strategies import METHODS

Settings = Callable[..., Config]
Bits = Callable[[Path], dict[str, bytes]]


def in_child(work: Callable[[], Any], *, killed_after_calls: int | None = None) -> bool:
    """Do something in a forked process; True if it was not killed before it ended.

    The process kills itself with SIGKILL at a given number of function calls, so that moments are
    spread over everything a run does, and the same test kills at the same moments again.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            calls = 0

            def count(*_: Any) -> None:
                nonlocal calls
                calls += 1
                if killed_after_calls is not None and calls >= killed_after_calls:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.setprofile(count)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.setprofile(None)
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), f"the child failed with status {status}"
    return status == 0


def count_calls(work: Callable[[], Any]) -> int:
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_files_of_a_run(tmp_path: Path, vectors: MultiLabelBenchmark, settings: Settings) -> None:
    config = settings(mem_size=6)
    records = run_experiment(config, tmp_path, benchmark=vectors)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == records
    assert [line["classes_seen"] for line in lines] == [2, 4, 6]
    assert all(0 <= line["metrics"]["mAP"] <= 1 for line in lines)
    assert set(lines[-1]["per_class_ap"]) == set(vectors.class_names)
    assert set(lines[-1]["loss_terms"]) == {"cls", "akd", "er", "total"}
    assert len(lines[-1]["loss_terms"]["er"]) == config.training.epochs
    assert lines[-1]["relabelling"]["count"] > 0
    blocks = lines[-1]["relabelling_blocks"]
    assert all(block["images"] != block["classes"] for block in blocks)
    assert sum(block["count"] for block in blocks) == lines[-1]["relabelling"]["count"]
    right = sum(block["right"] * block["count"] for block in blocks)
    assert right / lines[-1]["relabelling"]["count"] == pytest.approx(
        lines[-1]["relabelling"]["accuracy"]
    )
    assert sum(lines[-1]["provenance"].values()) == pytest.approx(1)

    scores = np.load(tmp_path / "scores.npz")
    assert scores["scores"].shape == scores["truth"].shape == (len(scores["truth"]), 6)
    assert scores["class_names"].tolist() == vectors.class_names
    memory = np.load(tmp_path / "memory.npz")
    assert memory["labels"].shape == memory["provenance"].shape == (6, 6)
    assert memory["experience"].tolist() == sorted(memory["experience"].tolist())
    assert memory["class_ends"].tolist() == [2, 4, 6]

    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert Config.from_dict(written) == as_recorded(config, written)
    assert written["class_names"] == vectors.class_names
    assert written["versions"]["torch"] == torch.__version__.split("+")[0]
    header, *rows = (tmp_path / "results.csv").read_text().splitlines()
    assert header.startswith("experience,classes_seen,mAP")
    assert len(rows) == 3


def test_a_finished_run_is_read_not_repeated(
    tmp_path: Path,
    vectors: MultiLabelBenchmark,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = run_experiment(settings(), tmp_path, benchmark=vectors)
    monkeypatch.setattr(run_module, "learn", None)
    assert run_experiment(settings(), tmp_path, benchmark=vectors) == records


def test_a_changed_configuration_is_refused_with_the_difference(
    tmp_path: Path, vectors: MultiLabelBenchmark, settings: Settings
) -> None:
    run_experiment(settings(mem_size=6), tmp_path, benchmark=vectors)
    with pytest.raises(ValueError, match=r"method\.mem_size: was 6, is 8"):
        run_experiment(settings(mem_size=8), tmp_path, benchmark=vectors)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"root": "photos"},
            "benchmark.root is for voc and coco and csv, not for 'scenes', got 'photos'",
        ),
        ({"name": "voc", "labels": "a.csv"}, "benchmark.labels is for csv, not for 'voc'"),
        ({"name": "coco", "train_size": 9}, "benchmark.train_size is for scenes, not for 'coco'"),
        ({"test_size": 2.5}, "test_size must be a whole number .*, got 2.5"),
        ({"test_size": float("inf")}, "test_size must be a whole number .*, got inf"),
    ],
)
def test_a_setting_of_another_data_set_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_benchmark(Config.from_dict({"benchmark": given}))


def test_a_folder_in_use_is_refused(
    tmp_path: Path, vectors: MultiLabelBenchmark, settings: Settings
) -> None:
    with locked(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()}"):
        run_experiment(settings(), tmp_path, benchmark=vectors)
    with locked(tmp_path):  # free again, also after a process that died holding it
        pass

    def hold() -> None:
        with locked(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)

    assert not in_child(hold)
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_process_forked_from_a_run_does_not_keep_its_folder(tmp_path: Path) -> None:
    """As a data-loading worker does that outlives a killed run for a moment."""
    with locked(tmp_path):
        worker = os.fork()
        if worker == 0:
            signal.pause()
            os._exit(0)
    try:
        with locked(tmp_path):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)

    def hold_and_fork() -> None:
        with locked(tmp_path):
            (tmp_path / "worker").write_text(str(os.fork() or signal.pause()))
            os.kill(os.getpid(), signal.SIGKILL)

    assert not in_child(hold_and_fork)
    try:
        with locked(tmp_path):
            pass
    finally:
        os.kill(int((tmp_path / "worker").read_text()), signal.SIGKILL)


def test_killed_at_random_moments_a_run_ends_in_the_same_bits(
    tmp_path: Path, vectors: MultiLabelBenchmark, settings: Settings, final_bits: Bits
) -> None:
    config = settings(mem_size=6)
    run_experiment(config, tmp_path / "warm up", benchmark=vectors)
    calls = count_calls(lambda: run_experiment(config, tmp_path / "whole", benchmark=vectors))
    wanted = final_bits(tmp_path / "whole")
    moments = random.Random(0)
    kills = attempt = 0
    while kills < 5:
        folder = tmp_path / f"stopped {attempt}"
        while not in_child(
            lambda folder=folder: run_experiment(config, folder, benchmark=vectors),
            # A resumed run also reads its settings and its checkpoint: some must get further than that.
            killed_after_calls=moments.randrange(calls // 10, 2 * calls),
        ):
            kills += 1
        assert final_bits(folder) == wanted
        attempt += 1


def test_a_damaged_checkpoint_costs_an_epoch_not_the_result(
    tmp_path: Path, vectors: MultiLabelBenchmark, settings: Settings, final_bits: Bits
) -> None:
    config = settings(mem_size=6)
    run_experiment(config, tmp_path / "whole", benchmark=vectors)
    _stop_at(1, 1, config, tmp_path / "stopped", vectors)
    newest = sorted((tmp_path / "stopped" / "checkpoint").iterdir())[-1]
    (newest / "tensors.safetensors").write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match="is damaged"):
        run_experiment(config, tmp_path / "stopped", benchmark=vectors)
    assert final_bits(tmp_path / "stopped") == final_bits(tmp_path / "whole")


class _StopError(Exception):
    pass


def _stop_at(
    experience: int, epoch: int, config: Config, folder: Path, benchmark: MultiLabelBenchmark
) -> None:
    """Run until the middle of an epoch of an experience."""

    class Stopping(Recorder):
        def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
            super().after_training_iteration(strategy, **kwargs)
            clock = strategy.clock
            if (clock.train_exp_counter, clock.train_exp_epochs) == (experience, epoch):
                raise _StopError

    # The name is part of what is saved.
    Stopping.__name__ = "Recorder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "Recorder", Stopping)
        with pytest.raises(_StopError):
            run_experiment(config, folder, benchmark=benchmark)


@pytest.fixture
def tiny(method: str, vectors: MultiLabelBenchmark, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stream for a method: of vectors, or of small images if its network is a transformer."""
    if METHODS[method].head not in ("l2p", "lanes"):
        return vectors

    def prompted(*_: Any, **__: Any) -> MultiLabelModel:
        network = VisionTransformer(
            img_size=8, patch_size=4, embed_dim=8, depth=1, num_heads=2, num_classes=0
        )
        if METHODS[method].head == "lanes":
            lanes = LanedViT(network, num_selectors=2, num_prompts=2)
            return MultiLabelModel(lanes, LaneHead(8))
        backbone = PromptedViT(network, pool_size=4, length=2, top_k=2)
        return MultiLabelModel(backbone, PromptHead(8, prompt_tokens=backbone.pool.tokens))

    monkeypatch.setattr(run_module, "build_network", prompted)
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(60, 3, 8, 8, generator=generator)
    labels = (torch.rand(60, 6, generator=generator) < 0.4).float()
    return multilabel_benchmark((images, labels), (images, labels), "B2-C2")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_ends_in_the_same_bits_after_a_stop(
    method: str, tiny: MultiLabelBenchmark, tmp_path: Path, settings: Settings, final_bits: Bits
) -> None:
    config = settings(method)
    run_experiment(config, tmp_path / "whole", benchmark=tiny)
    # In the middle of the last experience; or before the one pass that is all it makes of one; or in
    # the middle of the only one that it trains on.
    places = {"closed-form": (2, 0), "l3a": (2, 0), "closed-form-adapted": (0, 1)}
    experience, epoch = places.get(method, (2, 1))
    _stop_at(experience, epoch, config, tmp_path / "stopped", tiny)
    before = CheckpointFolder(tmp_path / "stopped" / "checkpoint").newest().moment
    assert before == (Moment(experience, 1) if epoch else Moment(experience - 1, Moment.END))
    set_random_state(random_state() | {"torch": torch.Generator().manual_seed(7).get_state()})
    run_experiment(config, tmp_path / "stopped", benchmark=tiny)
    assert final_bits(tmp_path / "stopped") == final_bits(tmp_path / "whole")


def test_parts_without_a_state_are_named() -> None:
    class Hoarder(AGEMPlugin):
        pass

    class Strategy:
        plugins = (Clock(), Recorder(), ReplayPlugin(), Hoarder(4, 2))

    assert unsaved(Strategy()) == ["Hoarder"]


@pytest.mark.parametrize("under_way", [False, True])
@pytest.mark.parametrize(
    "lost", [("plugins", "ClosedFormPlugin-0", "guesses"), ("model", "head.weight")]
)
def test_a_checkpoint_of_another_version_is_refused_with_the_way_out(
    tmp_path: Path,
    vectors: MultiLabelBenchmark,
    settings: Settings,
    lost: tuple[str, ...],
    under_way: bool,
) -> None:
    """As closed-form runs of before their records of images, or MULTI-LANE before its own head."""
    config = settings("closed-form")
    run_experiment(config, tmp_path, benchmark=vectors)
    checkpoints = CheckpointFolder(tmp_path / "checkpoint", config.to_dict())
    (moment,) = checkpoints.moments()
    state = checkpoints.load(moment)
    strategy = inner = state["strategy"]
    for key in lost[:-1]:
        inner = inner[key]
    del inner[lost[-1]]
    for name in ("results.csv", "manifest.json"):
        (tmp_path / name).unlink()
    shutil.rmtree(tmp_path / "checkpoint")
    # In the first experience there is no end of an earlier one, only the state after an epoch.
    checkpoints.save(Moment(0, 1) if under_way else moment, strategy if under_way else state)
    with pytest.raises(
        DamagedError, match=r"another version.*config\.yaml names, or .*--start-over"
    ):
        run_experiment(config, tmp_path, benchmark=vectors)


def test_a_resumed_run_keeps_the_defaults_that_it_began_with(
    tmp_path: Path,
    vectors: MultiLabelBenchmark,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = settings("rebll", mem_size=6)
    run_experiment(config, tmp_path, benchmark=vectors)
    for name in ("results.csv", "manifest.json"):
        (tmp_path / name).unlink()
    content = yaml.safe_load((tmp_path / "config.yaml").read_text())
    content["method_as_run"]["parameters"]["relabel_threshold"] = 0.5  # as in an earlier version
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(content))
    built = []
    build = run_module.build_strategy
    monkeypatch.setattr(
        run_module, "build_strategy", lambda *given: built.append(build(*given)) or built[0]
    )
    with pytest.warns(UserWarning, match=r"continues with method\.relabel_threshold 0\.5, the def"):
        run_experiment(config, tmp_path, benchmark=vectors)
    assert built[0].rebll.replay.relabel_threshold == 0.5
    assert built[0].rebll.memory.mem_size == 6


def test_a_resumed_run_reads_its_settings_once(
    tmp_path: Path,
    vectors: MultiLabelBenchmark,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_experiment(settings(mem_size=6), tmp_path, benchmark=vectors)
    for name in ("results.csv", "manifest.json"):
        (tmp_path / name).unlink()
    read, paths = folder_module.read_settings, []
    monkeypatch.setattr(
        folder_module, "read_settings", lambda path: paths.append(path) or read(path)
    )
    run_experiment(settings(mem_size=6), tmp_path, benchmark=vectors)
    assert paths == [tmp_path / "config.yaml"]
