"""Write the result files of a run, which the report reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from avalanche.training.plugins import EvaluationPlugin

from rebll_avalanche.files import replacing, write_text
from rebll_avalanche.manifest import write_manifest
from rebll_avalanche.memory import Memory
from rebll_avalanche.metrics import last_evaluation
from rebll_avalanche.metrics.plugin import multilabel_metric
from rebll_avalanche.picture_store import thumbnail_of
from rebll_avalanche.report.one_run import worst_rows
from rebll_avalanche.run_files import MEMORY, METRICS, PICTURE, RESULTS, SCORES


def class_average_precision(
    evaluator: EvaluationPlugin, class_names: Sequence[str]
) -> dict[str, float]:
    """AP by class name, for every class where the last evaluation defines it."""
    values = last_evaluation(evaluator).metrics.average_precision.tolist()
    return {
        name: value
        for name, value in zip(class_names, values, strict=False)
        if value == value  # not NaN
    }


def memory_page(memory: Memory | None, class_ends: Sequence[int]) -> dict[str, Any]:
    """Memory statistics for a line of ``metrics.jsonl``."""
    if memory is None or not len(memory):
        return {"relabelling": {}, "relabelling_blocks": [], "provenance": {}}
    return {
        "relabelling": memory.relabelling_score(),
        "relabelling_blocks": memory.block_scores(class_ends),
        "provenance": memory.provenance_shares(),
    }


def write_metrics(folder: Path, records: Sequence[dict[str, Any]]) -> None:
    """``metrics.jsonl``: one line per finished experience."""
    write_text(folder / METRICS, "".join(f"{json.dumps(record)}\n" for record in records))


def write_results(folder: Path, records: Sequence[dict[str, Any]]) -> None:
    """``results.csv``: one row per experience; written after the last one.

    Its presence marks the run as finished, so every other file is written first.
    """
    names = dict.fromkeys(name for record in records for name in record["metrics"])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["experience", "classes_seen", *names, "seconds"])
    for record in records:
        values = [record["metrics"].get(name, "") for name in names]
        writer.writerow([record["experience"], record["classes_seen"], *values, record["seconds"]])
    write_manifest(folder, {RESULTS: text.getvalue()})
    write_text(folder / RESULTS, text.getvalue())


def write_scores(
    folder: Path, evaluator: EvaluationPlugin, class_names: Sequence[str], experience: Any
) -> None:
    """``scores.npz``: the model's scores on the test images of the last experience.

    Where these are files, their names; where they are pictures, thumbnails of the worst. The report
    shows what is in this file, and opens no other picture.
    """
    evaluation = last_evaluation(evaluator)
    scores = evaluation.scores.numpy().astype(np.float32)
    truth = evaluation.truth.numpy().astype(np.float32)
    more = {}
    if (names := getattr(experience, "image_names", None)) is not None:
        more["image_names"] = np.array(names, dtype=np.str_)
    lowest = min(multilabel_metric(evaluator).thresholds, default=0.5)
    for row in worst_rows(scores, truth, lowest):
        picture = experience.picture(row) if hasattr(experience, "picture") else None
        if picture is not None:
            more[f"{PICTURE}{row}"] = np.frombuffer(thumbnail_of(picture), np.uint8)
    _write_arrays(
        folder / SCORES,
        scores=scores,
        truth=truth,
        class_names=np.array(list(class_names)[: scores.shape[1]], dtype=np.str_),
        **more,
    )


def write_memory(folder: Path, memory: Memory | None, class_ends: Sequence[int]) -> None:
    """``memory.npz``: the label block matrix, rows sorted by experience."""
    if memory is None or not len(memory):
        return
    labels, provenance = memory.label_matrix()
    _write_arrays(
        folder / MEMORY,
        labels=labels.numpy(),
        provenance=provenance.numpy(),
        experience=memory.experience.sort(stable=True).values.numpy(),
        class_ends=np.array(class_ends, dtype=np.int64),
    )


def _write_arrays(path: Path, **arrays: np.ndarray) -> None:
    with replacing(path) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
