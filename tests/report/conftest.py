"""Run folders for reports: results computed from random scores, no training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from sklearn.metrics import average_precision_score

from rebll_avalanche.report import read_runs
from rebll_avalanche.report.groups import Setting, settings_of
from rebll_avalanche.report.style import Look, looks

CLASSES = [
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
]  # fmt: skip
ENDS = (5, 8, 11, 14, 17, 20)
IMAGES = 400
# How far present labels stand out at once, how much of that each later experience takes away, and how
# much absent labels drift up: enough to give each method its own face.
CHARACTER = {
    "rebll": (3.2, 0.10, 0.0),
    "akd": (3.1, 0.22, 0.05),
    "lwf": (3.1, 0.42, 0.45),
    "er": (3.0, 0.50, 0.20),
    "fine-tuning": (2.9, 0.95, 0.0),
    "joint": (3.4, 0.0, 0.0),
}
LABELS = {
    "rebll": "RebLL (AKD + OR)", "akd": "RebLL (AKD)", "lwf": "LwF", "er": "ER",
    "fine-tuning": "Fine-Tuning", "joint": "Joint",
}  # fmt: skip
MEMORY = ("rebll", "er")

Write = Callable[..., Path]


@pytest.fixture(scope="session")
def write_run() -> Write:
    """A function that writes a run folder: ``write_run(folder, "lwf", seed=1, alpha=1.2)``."""
    return _write_run


@pytest.fixture(scope="session")
def run_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with everything a report can show."""
    root = tmp_path_factory.mktemp("runs")
    for method in CHARACTER:
        for seed in range(1 if method == "joint" else 3):
            options = {"alpha": 1.2, "beta": 0.7} if method in ("rebll", "akd") else {}
            _write_run(root / f"{method}_seed{seed}", method, seed=seed, **options)
    for alpha in (0.4, 0.8, 1.6):
        _write_run(root / f"akd_alpha{alpha}", "akd", seed=0, alpha=alpha, beta=0.7)
    _write_cams(root / "rebll_seed0")
    return root


@pytest.fixture(scope="session")
def setting(run_folders: Path) -> Setting:
    """The setting of all these runs."""
    (setting,) = settings_of(read_runs([run_folders])[0])
    return setting


@pytest.fixture(scope="session")
def appearance(setting: Setting) -> dict[str, Look]:
    """The look of each experiment."""
    return looks((group.method, group.label) for group in setting.competitors)


def _write_run(
    folder: Path, method: str, seed: int = 0, steps: int = len(ENDS), **options: float
) -> Path:
    draw = np.random.default_rng([seed, *method.encode()])
    folder.mkdir(parents=True)
    config = {
        "benchmark": {
            "name": "voc",
            "scenario": "B5-C3",
            "root": str(folder.parent),
            "image_size": 64,
        },
        "model": {"backbone": "tf_efficientnet_lite0", "pretrained": "pypi", "head": "linear"},
        "method": {"name": method, **options},
        "training": {"epochs": 20, "lr": 0.001},
        "evaluation": {"stream": "test", "thresholds": [0.8, 0.5]},
        "seed": seed,
        "class_names": CLASSES,
        "method_as_run": {
            "label": LABELS[method],
            "joint": method == "joint",
            "parameters": options,
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    hardness = np.random.default_rng(0).normal(0, 0.5, len(CLASSES)) + draw.normal(
        0, 0.12, len(CLASSES)
    )
    truth = (np.random.default_rng(1).random((IMAGES, len(CLASSES))) < 0.08).astype(float)
    noise = draw.normal(0, 1.25, truth.shape)
    signal, decay, drift = CHARACTER[method]
    decay += 0.06 * abs(options.get("alpha", 1.2) - 1.0)
    lines, course = [], []
    ends = (ENDS[-1],) if method == "joint" else ENDS[:steps]
    for number, end in enumerate(ends):
        age = number - np.searchsorted(ENDS, np.arange(end), side="right")
        strength = (signal + hardness[:end]) * np.exp(-decay * age / 2)
        logits = -3 + drift * age / 2 + noise[:, :end] + truth[:, :end] * (strength + 1)
        scores = 1 / (1 + np.exp(-logits))
        lines.append(_line(number, end, scores, truth[:, :end], course, method, draw))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    np.savez(
        folder / "scores.npz", scores=scores.astype(np.float32), truth=truth[:, :end].astype(np.float32),
        class_names=np.array(CLASSES[:end]),
    )  # fmt: skip
    if method in MEMORY:
        _write_memory(folder, method, ends, draw)
    return folder


def _line(
    number: int, end: int, scores: np.ndarray, truth: np.ndarray, course: list[np.ndarray], method: str,
    draw: np.random.Generator,
) -> dict[str, Any]:  # fmt: skip
    ap = np.array([average_precision_score(truth[:, c], scores[:, c]) for c in range(end)])
    course.append(ap)
    metrics = {"mAP": ap.mean(), "AvgmAP": float(np.mean([step.mean() for step in course]))}
    for threshold in (0.8, 0.5):
        said = scores > threshold
        hits, wrong = (said & (truth == 1)).sum(axis=0), (said & (truth == 0)).sum(axis=0)
        missed = (~said & (truth == 1)).sum(axis=0)
        metrics[f"CF1@{threshold}"] = (2 * hits / np.maximum(2 * hits + wrong + missed, 1)).mean()
        metrics[f"OF1@{threshold}"] = 2 * hits.sum() / (2 * hits + wrong + missed).sum()
        metrics[f"FPR@{threshold}"] = wrong.sum() / (truth == 0).sum()
    if number:
        old = len(course[-2])
        best = np.array([max(step[c] for step in course[:-1] if c < len(step)) for c in range(old)])
        metrics["Forgetting"] = (best - ap[:old]).mean()
    line = {
        "experience": number,
        "classes_seen": end,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "per_class_ap": dict(zip(CLASSES, ap.tolist(), strict=False)),
        "loss_terms": {"cls": [0.3, 0.2, 0.15]},
        "seconds": float(60 + 20 * draw.random() + 30 * (method in MEMORY)),
        "images_per_second": float(180 + 20 * draw.random() - 60 * (method in MEMORY)),
        "peak_memory_bytes": float(9e8 + 3e8 * (method in MEMORY)),
    }
    if method == "rebll" and number:
        line["relabelling"] = {
            "accuracy": 0.97 - 0.01 * number, "precision": 0.8 - 0.03 * number,
            "recall": 0.7 - 0.05 * number + 0.02 * float(draw.random()), "count": 40.0 * end,
        }  # fmt: skip
        line["relabelling_blocks"] = [
            {"images": i, "classes": c, "right": 0.97 - 0.01 * abs(i - c), "count": 20}
            for i in range(number + 1)
            for c in range(number + 1)
            if i != c
        ]
    return line


def _write_memory(
    folder: Path, method: str, ends: tuple[int, ...], draw: np.random.Generator
) -> None:
    experience = np.sort(draw.integers(0, len(ends), 40))
    block = np.searchsorted(ends, np.arange(ends[-1]), side="right")
    provenance = np.where(
        block[None] == experience[:, None], 1, np.where(block[None] < experience[:, None], 2, 3)
    ).astype(np.uint8)
    labels = (draw.random(provenance.shape) < 0.1).astype(np.float32)
    labels[provenance == 1] = draw.random(int((provenance == 1).sum())) < 0.4
    if method == "er":
        labels[provenance > 1] = np.nan
        provenance[provenance > 1] = 0
    np.savez(
        folder / "memory.npz", labels=labels, provenance=provenance, experience=experience,
        class_ends=np.array(ends),
    )  # fmt: skip


def _write_cams(folder: Path) -> None:
    (folder / "cam").mkdir()
    records = []
    for number in range(2):
        names = [f"{number}.jpg", f"{number}-person.jpg", f"{number}-dog.jpg"]
        for shade, name in enumerate(names):
            picture = np.linspace(0, 255, 48 * 48 * 3).reshape(48, 48, 3) / (1 + shade)
            Image.fromarray(picture.astype(np.uint8)).save(folder / "cam" / name)
        maps = [
            {"label": "person", "score": 0.93, "present": True, "file": names[1]},
            {"label": "dog", "score": 0.12, "present": False, "file": names[2]},
        ]
        records.append({"name": f"test image {number}", "file": names[0], "maps": maps})
    (folder / "cam" / "cam.json").write_text(json.dumps(records))
