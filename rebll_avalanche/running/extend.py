"""Train a finished run on another experience of new images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rebll_avalanche.benchmarks import MultiLabelBenchmark
from rebll_avalanche.benchmarks.extension import ExtendedBenchmark, read_new_images
from rebll_avalanche.benchmarks.features import check_same_weights
from rebll_avalanche.checkpointing.foreign import unsaved
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.files import file_hash
from rebll_avalanche.run_files import MANIFEST, RESULTS, config_of
from rebll_avalanche.running.build import build_benchmark, build_network, build_strategy
from rebll_avalanche.running.folder import (
    finished_records,
    is_finished,
    locked,
    read_config,
    recorded_shape,
    with_first_defaults,
    write_config,
)
from rebll_avalanche.running.label_tables import check_label_table, keep_label_table
from rebll_avalanche.running.run import learn


def extend_run(
    folder: Path,
    labels: Path,
    images: Path,
    *,
    test_size: float = 0.2,
    on_error: str | None = None,
    benchmark: MultiLabelBenchmark | None = None,
    watcher: Any = None,
) -> list[dict[str, Any]]:
    """Train a finished run on new images; after an interruption, the same call continues.

    Args:
        folder: The run.
        labels: Table of new images and their labels; see :func:`~rebll_avalanche.from_csv`.
        images: The folder of the new images.
        test_size: Fraction of the new images to test on, unless the table has a split column.
        on_error: ``"raise"`` if a new image is broken, or ``"skip"`` it; by default as in the run.
        benchmark: The run's original benchmark, if its configuration cannot rebuild it.
        watcher: See :func:`~rebll_avalanche.running.run.run_experiment`.

    Returns:
        The lines of ``metrics.jsonl``, the new experience last.

    Raises:
        ValueError: When the run is not finished, or its method cannot be extended.
    """
    config_of(folder)  # raises if there is no run, before the lock would create the folder
    with locked(folder):
        content = read_config(folder)
        config = Config.from_dict(content)
        extensions: list[dict[str, Any]] = list(content.get("extensions", []))
        entry = {
            "labels": str(labels.resolve()),
            "images": str(images.resolve()),
            "sha256": file_hash(_existing(labels)),
            "test_size": test_size,
            "on_error": on_error or config.benchmark.on_error,
        }
        _check_tables(config, folder, extensions)
        known = any(old["sha256"] == entry["sha256"] for old in extensions)
        if is_finished(folder):
            records = finished_records(folder)
            if known:
                return records
        if not is_finished(folder) and (not known or extensions[-1]["sha256"] != entry["sha256"]):
            missing = (
                f"rebll extend {folder} {extensions[-1]['labels']}" if extensions else "rebll run"
            )
            raise ValueError(f"{folder} is not finished; continue with {missing} first")
        if not known:
            extensions.append(entry)

        if content.get("method_as_run", {}).get("joint"):
            raise ValueError(
                f"{config.method_name} learns all classes at once and cannot be extended; "
                "extend a run of another method"
            )
        shape = recorded_shape(folder, content)
        stream = build_benchmark(config) if benchmark is None else benchmark
        features = stream.features
        weights = getattr(features, "weights", None)
        if weights is not None:  # a user's own function is not checked
            check_same_weights(weights, content.get("weights", {}))
        # Feature extractors choose their own image size.
        size = {"image_size": shape[-1]} if features is None else {}
        for extension in extensions:
            stream = ExtendedBenchmark(
                stream,
                read_new_images(
                    extension["labels"],
                    extension["images"],
                    test_size=extension["test_size"],
                    on_error=extension.get("on_error", "raise"),  # as in earlier versions
                    seed=config.benchmark.seed,
                    features=features,
                    **size,
                ),
            )
        model = build_network(config, shape, pretrained=False)
        started = with_first_defaults(config, folder)
        strategy = build_strategy(started, model, stream, folder)
        lost = unsaved(strategy)
        if lost:
            raise ValueError(
                f"{folder} cannot be extended: the state of {', '.join(lost)} was not saved; "
                "extend a run of a method of this package, such as rebll"
            )
        content |= {"extensions": extensions, "class_names": stream.class_names}
        for stale in (RESULTS, MANIFEST):
            (folder / stale).unlink(missing_ok=True)
        if not known:
            keep_label_table(folder, f"extension-{len(extensions) - 1}", labels)
        write_config(folder, content)
        return learn(config, folder, strategy, stream, watcher=watcher)


def _check_tables(config: Config, folder: Path, extensions: list[dict[str, Any]]) -> None:
    """Refuse earlier label tables that have been edited since."""
    way_out = "give new rows a table of their own"
    if config.benchmark.labels is not None:
        check_label_table(folder, "benchmark", Path(config.benchmark.labels).expanduser(), way_out)
    for number, extension in enumerate(extensions):
        check_label_table(folder, f"extension-{number}", Path(extension["labels"]), way_out)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"no label table at {path}")
    return path
