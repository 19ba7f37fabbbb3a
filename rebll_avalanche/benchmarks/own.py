"""Somebody's own pictures, labelled in a CSV file."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rebll_avalanche.benchmarks.generator import MultiLabelBenchmark
from rebll_avalanche.benchmarks.images import ImageFiles
from rebll_avalanche.benchmarks.transforms import (
    Transform,
    evaluation_transform,
    training_transform,
)
from rebll_avalanche.scenario import Experiences, Scenario
from rebll_avalanche.words import nearest

SPLIT_NAMES = ("train", "test")
# Pictures and their label matrix.
Split = tuple[ImageFiles, np.ndarray]


def from_csv(
    labels: str | Path,
    *,
    images: str | Path,
    scenario: str | Experiences | Scenario,
    class_names: Sequence[str] | None = None,
    test_size: float = 0.2,
    seed: int = 0,
    image_size: int = 224,
    train_transform: Transform | None = None,
    eval_transform: Transform | None = None,
    **options: Any,
) -> MultiLabelBenchmark:
    """Streams from a CSV file with a picture's file name and its labels in each row.

    ::

        file,labels
        street.jpg,car;person
        park.jpg,dog

    Labels may be separated by ``;`` or ``|`` or stand in columns of their own, and a picture may have
    several rows. The first row is a header if its first cell is not a file name. A header may name
    a column ``split`` that says ``train`` or ``test`` for each row.

    Args:
        labels: The CSV file.
        images: The folder that file names are relative to.
        scenario: ``"B5-C3"``, or one list of class names per experience.
        class_names: The names that may occur; by default all that do.
        test_size: Share of each class's pictures to test on if there is no ``split`` column.
        seed: Of this choice, and of the validation images where ``validation_size`` asks for some.
        image_size: Side of the square that images are resized to.
        train_transform: Instead of the paper's augmentation, :func:`training_transform`.
        eval_transform: Instead of :func:`evaluation_transform`.
        **options: See :func:`multilabel_benchmark`.

    Raises:
        FileNotFoundError: When the file or a picture is not there.
        ValueError: When the file is not such a table, or a name is not in ``class_names``.
    """
    train, test, names = read_csv(labels, images, class_names, test_size=test_size, seed=seed)
    return MultiLabelBenchmark(
        train,
        test,
        scenario,
        class_names=names,
        seed=seed,
        image_size=image_size,
        train_transform=train_transform or training_transform(image_size),
        eval_transform=eval_transform or evaluation_transform(image_size),
        **options,
    )


def read_csv(
    labels: str | Path,
    images: str | Path,
    class_names: Sequence[str] | None = None,
    *,
    test_size: float = 0.2,
    seed: int = 0,
) -> tuple[Split, Split, list[str]]:
    """Training pictures, test pictures and class names of a table; see :func:`from_csv`."""
    table, splits = _read_rows(Path(labels).expanduser())
    names = sorted(class_names or {name for found in table.values() for name in found})
    columns = {name: column for column, name in enumerate(names)}
    matrix = np.zeros((len(table), len(names)), dtype=np.float32)
    for row, (file, found) in enumerate(table.items()):
        for name in found:
            if name not in columns:
                raise ValueError(f"{labels}: {file} has the label {name!r}; {_hint(name, names)}")
            matrix[row, columns[name]] = 1
    if splits:
        testing = np.array([splits[file] == "test" for file in table])
    else:
        testing = _choose_test(matrix, test_size, seed)
    folder = Path(images).expanduser()
    files = np.array([str(folder / file) for file in table])
    train, test = ((ImageFiles(files[rows].tolist()), matrix[rows]) for rows in (~testing, testing))
    return train, test, names


def _read_rows(path: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Label names and, where there is such a column, the split of each file."""
    if not path.is_file():
        raise FileNotFoundError(f"no label file at {path}")
    with open(path, newline="", encoding="utf-8-sig") as lines:
        rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if header and not Path(header[0]).suffix:
        rows = rows[1:]
    else:
        header = []
    split_column = header.index("split") if "split" in header else None
    table: dict[str, list[str]] = {}
    splits: dict[str, str] = {}
    for row in rows:
        file = row[0].strip()
        cells = [cell for column, cell in enumerate(row) if column not in (0, split_column)]
        found = [name.strip() for cell in cells for name in re.split(r"[;|]", cell)]
        table.setdefault(file, []).extend(name for name in found if name)
        if split_column is not None:
            split = row[split_column].strip() if split_column < len(row) else ""
            if split not in SPLIT_NAMES or splits.setdefault(file, split) != split:
                raise ValueError(
                    f"{path}: the split of {file} must be train or test, the same in all of its "
                    f"rows, got {split!r}"
                )
    if not any(table.values()):
        raise ValueError(f"{path} has no labels; each row needs a file name and label names")
    return table, splits


def _choose_test(matrix: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Rows to test on: of each class its share, and at least one picture if there are two.

    Rare classes choose first, because common ones find enough pictures afterwards.
    """
    if not 0 < share < 1:
        raise ValueError(f"test_size must be between 0 and 1, got {share}")
    testing = np.zeros(len(matrix), dtype=bool)
    shuffled = np.random.default_rng(seed).permutation(len(matrix))
    counts = matrix.sum(axis=0).astype(int)
    for column in np.argsort(counts, kind="stable"):
        wanted = max(round(share * counts[column]), int(counts[column] > 1))
        wanted -= int(matrix[testing, column].sum())
        free = shuffled[(matrix[shuffled, column] == 1) & ~testing[shuffled]]
        testing[free[: max(wanted, 0)]] = True
    return testing


def _hint(name: str, names: Sequence[str]) -> str:
    close = nearest(name, names, count=1, cutoff=0.6)
    return f"did you mean {close!r}?" if close else f"known are: {', '.join(names)}"
