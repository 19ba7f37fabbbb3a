"""A run: from a configuration to a folder of results; can be stopped and resumed at any time."""

from __future__ import annotations

import math
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from rebll_avalanche.arguments import check_path
from rebll_avalanche.benchmarks import MultiLabelBenchmark
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder, Moment
from rebll_avalanche.checkpointing.foreign import unsaved
from rebll_avalanche.checkpointing.memory_images import memory_of, with_own_images
from rebll_avalanche.checkpointing.resume import CheckpointPlugin, restore_from
from rebll_avalanche.checkpointing.snapshot import capture
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.distributed.ranks import (
    everywhere,
    first_alone,
    from_first,
    is_first,
    world_size,
)
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.files import sweep_drafts
from rebll_avalanche.manifest import WRITTEN_FIRST, check_manifest, write_manifest
from rebll_avalanche.methods import describe
from rebll_avalanche.metrics import read_metrics
from rebll_avalanche.plugins.divergence import DivergencePlugin
from rebll_avalanche.process import release_freed_memory
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.run_files import CHECKPOINT, CONFIG
from rebll_avalanche.running import results
from rebll_avalanche.running.build import build_benchmark, build_strategy, input_shape
from rebll_avalanche.running.environment import (
    git_state,
    hardware,
    seed_everything,
    versions,
)
from rebll_avalanche.running.folder import (
    check_owner,
    check_unchanged,
    clear,
    finished_records,
    has_learned,
    is_finished,
    locked,
    record_to_continue,
    with_first_defaults,
    write_config,
)
from rebll_avalanche.running.label_tables import check_label_table, keep_label_table
from rebll_avalanche.running.network import build_network, set_up_speed
from rebll_avalanche.running.progress import ProgressPlugin, on_terminal
from rebll_avalanche.running.recorder import Recorder
from rebll_avalanche.running.stream import evaluation_stream
from rebll_avalanche.running.tuning import as_recorded, with_choice
from rebll_avalanche.scenario import class_range
from rebll_avalanche.words import brief


def run_experiment(
    config: Config,
    folder: Path,
    *,
    benchmark: MultiLabelBenchmark | None = None,
    watcher: Any = None,
    start_over: bool = False,
) -> list[dict[str, Any]]:
    """Run a configuration in a folder, or resume it where it was stopped.

    In a ``torch.distributed`` job, every rank calls this, and sees the same folder.

    Args:
        config: The settings.
        folder: Folder for results and checkpoints; created if it does not exist.
        benchmark: Benchmark to use instead of the one the configuration describes.
        watcher: A plugin that shows progress, with a method ``close``; by default a bar on a
            terminal.
        start_over: Delete the files of an earlier run in the folder.

    Returns:
        The lines of ``metrics.jsonl``, one per experience.

    Raises:
        ChangedError: When the folder belongs to another configuration or label table.
        DamagedError: When results or checkpoints were modified or damaged.
        DivergedError: When training diverges.
        LostRankError: When another process of the same job has ended.
        ValueError: When the folder is in use.

    >>> import tempfile
    >>> from rebll_avalanche.configuration.config import Config
    >>> scenes = {"name": "scenes", "train_size": 40, "test_size": 20, "scenario": "B10-C10"}
    >>> settings = {"benchmark": scenes, "training": {"epochs": 1}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     steps = run_experiment(Config.from_dict(settings), Path(folder))
    ...     (Path(folder) / "metrics.jsonl").exists()
    True
    >>> [step["classes_seen"] for step in steps]
    [10, 20]
    """
    if not isinstance(config, Config):
        raise TypeError(f"config must be a Config, got {brief(config)}; see Config.from_dict")
    if benchmark is not None and not hasattr(benchmark, "train_stream"):
        raise TypeError(f"benchmark must have a train_stream, got {brief(benchmark)}")
    if watcher is not None and not callable(getattr(watcher, "close", None)):
        raise TypeError(f"watcher must be a plugin with a method close, got {brief(watcher)}")
    check_path("folder", folder, needed=True)
    folder = Path(folder)
    with ExitStack() as stack:
        # The first of all ranks holds the folder and writes; the others read.
        from_first(lambda: stack.enter_context(locked(folder)))
        if start_over:
            from_first(lambda: clear(folder))
        from_first(lambda: sweep_drafts(folder))
        checkpoints = CheckpointFolder(folder / CHECKPOINT)
        from_first(checkpoints.sweep)
        known = (folder / CONFIG).is_file()
        # Checkpoints hold the settings too, in case config.yaml is lost.
        record = record_to_continue(folder) if known else checkpoints.newest().configuration
        if record:
            config = as_recorded(config, record)
            check_unchanged(record, config, folder)
        table = Path(config.benchmark.labels).expanduser() if config.benchmark.labels else None
        learned = has_learned(folder)
        if learned and (folder / CONFIG).is_file():
            check_manifest(folder, WRITTEN_FIRST)
        if table is not None and learned:
            check_label_table(folder, table)
        if known and is_finished(folder):
            records = finished_records(folder)
            if is_first():
                checkpoints.keep_newest()
            return records
        if checkpoints.moments():
            _mention_rounding(record.get("environment", {}), folder)
        seed_everything(config.seed)
        started = time.perf_counter()
        if benchmark is None:
            benchmark = first_alone(lambda: build_benchmark(config))
        preparation = time.perf_counter() - started
        shape = input_shape(benchmark)
        model = build_network(config, shape)
        stream = benchmark.train_stream
        config, tried = from_first(lambda: with_choice(config, model, shape, stream))
        set_up_speed(model, config.training)
        as_begun = with_first_defaults(record, config, folder)
        strategy = build_strategy(as_begun, model, benchmark, folder)
        if is_first() and not (learned and known):
            if table is not None:
                keep_label_table(folder, table)
            weights = getattr(benchmark.features, "weights", model.weights)
            content = _resolved(config, benchmark, weights, shape)
            content["environment"]["milliseconds_per_step"] = tried
            content["environment"]["preparation_seconds"] = round(preparation, 1)
            write_config(folder, content)
            write_manifest(folder, names=WRITTEN_FIRST)
        return learn(config, folder, strategy, benchmark, watcher=watcher)


def learn(
    config: Config, folder: Path, strategy: Strategy, benchmark: Any, *, watcher: Any = None
) -> list[dict[str, Any]]:
    """Train and evaluate every remaining experience, writing results after each."""
    checkpoints = CheckpointFolder(folder / CHECKPOINT, config.to_dict())
    point = checkpoints.newest()
    check_owner(point.configuration, config, folder)
    if len(set(everywhere(point.moment))) > 1:
        raise ValueError(
            f"the processes of this job see different checkpoints in {folder}; choose a --folder that all "
            "machines share"
        )
    records: list[dict[str, Any]] = point.end.get("records", [])
    if point.end:
        restore_from(folder, strategy, benchmark.train_stream, point.end["strategy"])
    lost = unsaved(strategy)
    recorder = Recorder()
    strategy.plugins.append(recorder)
    strategy.plugins.append(DivergencePlugin())
    if watcher is None and on_terminal() and is_first():
        watcher = ProgressPlugin(benchmark, label=config.method_name)
    if watcher is not None:
        strategy.plugins.append(watcher)
    if lost:
        warnings.warn(
            f"a checkpoint cannot hold the state of {', '.join(lost)}: "
            "if this run is stopped, it starts over",
            stacklevel=2,
        )
    else:
        done = point.moment.epoch if point.epoch and point.moment is not None else 0
        strategy.plugins.append(
            CheckpointPlugin(
                checkpoints, benchmark.train_stream, under_way=point.epoch, epochs_done=done
            )
        )
    stream = config.evaluation.stream
    pairs = list(zip(benchmark.train_stream, evaluation_stream(benchmark, stream), strict=True))
    if len(records) > len(pairs):
        raise DamagedError(
            f"{folder} has learned {len(records)} experiences, but its configuration has {len(pairs)}: "
            f"restore its {CONFIG}"
        )
    workers = {"num_workers": config.training.num_workers}
    try:
        for train_experience, eval_experience in pairs[len(records) :]:
            strategy.train(train_experience, **workers)
            started = time.perf_counter()
            found = read_metrics(strategy.eval([eval_experience], **workers), stream)
            memory = memory_of(strategy)
            page = recorder.page()
            page["seconds"] += time.perf_counter() - started
            names = benchmark.class_names
            ends = [hi for _, hi in benchmark.scenario.ranges]
            for earlier in records:  # their size grows quadratically; keep the last only
                earlier["relabelling_blocks"] = []
            records.append(
                {
                    "experience": int(train_experience.current_experience),
                    "classes_seen": class_range(train_experience)[1],
                    "metrics": _in_order(found),
                    "per_class_ap": results.class_average_precision(strategy.evaluator, names),
                    **page,
                    **results.memory_page(memory, ends),
                }
            )
            if not is_first():
                continue
            results.write_scores(folder, strategy.evaluator, names, eval_experience)
            results.write_memory(folder, memory, ends)
            results.write_metrics(folder, records)
            if not lost or len(records) == len(pairs):
                moment = Moment(len(records) - 1, Moment.END)
                end: dict[str, Any] = {
                    "records": records,
                    "strategy": capture(strategy, benchmark.train_stream),
                }
                if len(records) == len(pairs):  # it may be opened when the images are gone
                    side = input_shape(benchmark)[-1]
                    end |= with_own_images(end["strategy"], benchmark.train_stream, side)
                checkpoints.save(moment, end)
            release_freed_memory()
    finally:
        if watcher is not None:
            watcher.close()
    if is_first():
        results.write_results(folder, records)
        checkpoints.keep_newest()
    return records


def _mention_rounding(environment: dict[str, Any], folder: Path) -> None:
    before, now = environment.get("processes"), world_size()
    if before not in (None, now):
        warnings.warn(
            f"{folder} was started on {before} processes and goes on on {now}: sums are rounded in "
            "another order, so its last digits may differ",
            stacklevel=2,
        )
    before, now = environment.get("threads"), torch.get_num_threads()
    if before not in (None, now):
        warnings.warn(
            f"{folder} was started with {before} threads and continues with {now}: sums are rounded "
            f"differently, so the last digits may differ; set OMP_NUM_THREADS={before} to avoid this",
            stacklevel=2,
        )


def _in_order(metrics: dict[str, float]) -> dict[str, float]:
    """The defined metrics, mAP first: Avalanche's order depends on earlier evaluations."""
    known = {name: value for name, value in metrics.items() if not math.isnan(value)}
    return dict(sorted(known.items(), key=lambda item: (item[0] != "mAP", item[0])))


def method_as_run(config: Config) -> dict[str, Any]:
    """The method's label and all its parameters, defaults included, as plain values."""
    method = describe(config.method_name)
    parameters = method.as_run(config.method_options)
    return {"label": method.label, "joint": method.joint, "parameters": parameters}


def _resolved(
    config: Config, benchmark: MultiLabelBenchmark, weights: dict[str, Any], shape: tuple[int, ...]
) -> dict[str, Any]:
    """The content of ``config.yaml``: the configuration and everything else that affects results."""
    records = {
        "class_names": list(benchmark.class_names),
        "class_order": list(benchmark.scenario.class_order),
        "method_as_run": method_as_run(config),
        "weights": dict(weights),
        "versions": versions(),
        "git": git_state(),
        "environment": {**hardware(), "processes": world_size(), "input_shape": list(shape)},
    }
    return config.to_dict() | records
