"""Benchmarks from your own images, labelled in a CSV file or another table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rebll_avalanche.arguments import check_number
from rebll_avalanche.benchmarks.generator import MultiLabelBenchmark
from rebll_avalanche.benchmarks.images import ImageFiles, ImageObjects, Source
from rebll_avalanche.benchmarks.transforms import for_photographs
from rebll_avalanche.errors import TableError
from rebll_avalanche.scenario import Experiences, Scenario
from rebll_avalanche.tables import AnnotationTable, read_csv, read_table
from rebll_avalanche.words import check_class_names, nearest

# Pictures and their label matrix.
Split = tuple[Source, np.ndarray]


def from_csv(
    labels: str | Path,
    *,
    images: str | Path,
    scenario: str | Experiences | Scenario,
    class_names: Sequence[str] | None = None,
    about: Sequence[str] | None = None,
    test_size: float = 0.2,
    seed: int = 0,
    **options: Any,
) -> MultiLabelBenchmark:
    """Streams from a CSV file with an image's file name and its labels in each row.

    ::

        file,labels
        street.jpg,car;person
        park.jpg,dog

    Labels may be separated by ``;`` or ``|`` or be in separate columns, and an image may have several
    rows. A file without a label shows none of the classes. Or there is a column per class::

        file,car,person
        street.jpg,1,1
        park.jpg,0,

    with 1, 0, blank for unknown and -1 for uncertain. An optional column ``split`` holds ``train`` or
    ``test``; columns with other data, such as dates and places, are ignored. A summary of how the file
    was read is written to standard error.

    Args:
        labels: The CSV file.
        images: The folder that file names are relative to.
        scenario: ``"B5-C3"``, or one list of class names per experience.
        class_names: The names that may occur; by default all that do.
        about: The classes that the file annotates, if not exactly those it names: all others are ignored,
            and those without any row are negative everywhere.
        test_size: Fraction of each class's images to test on if there is no ``split`` column.
        seed: Seed of this choice, and of the validation split.
        **options: See :func:`multilabel_benchmark`. ``image_size`` is 224 and training uses the paper's
            augmentation, :func:`training_transform`, unless given.

    Raises:
        MissingFileError: When the file or an image is missing.
        TableError: When the file has another format, or a name is not in ``class_names``.

    >>> import tempfile
    >>> from rebll_avalanche import MultiLabelScenes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     MultiLabelScenes(train_size=40, test_size=20).write_csv(folder)
    ...     table, images = f"{folder}/labels.csv", f"{folder}/images"
    ...     benchmark = from_csv(table, images=images, scenario="B10-C5", image_size=32)
    ...     len(benchmark.train_stream), benchmark.train_stream[0].dataset[0][0].shape
    (3, torch.Size([3, 32, 32]))
    """
    table = read_csv(labels, images=images, about=about)
    return _streams(table, class_names, scenario, test_size=test_size, seed=seed, **options)


def from_table(
    table: Any,
    *,
    scenario: str | Experiences | Scenario,
    images: str | Path | None = None,
    class_names: Sequence[str] | None = None,
    about: Sequence[str] | None = None,
    **options: Any,
) -> MultiLabelBenchmark:
    """Streams from a label table in any format that :func:`rebll_avalanche.tables.read_table` reads.

    Args:
        table: A file, a folder, a data frame, a data set, or a pair of images and labels.
        scenario: ``"B5-C3"``, or one list of class names per experience.
        images: The folder that file names are relative to.
        class_names: The names that may occur; for a label matrix, the names of its columns.
        about: See :func:`from_csv`.
        **options: See :func:`from_csv`.

    >>> import numpy as np
    >>> pictures = list(np.zeros((8, 32, 32, 3), dtype=np.uint8))
    >>> labels = np.tile(np.eye(4), (2, 1))
    >>> benchmark = from_table(
    ...     (pictures, labels), class_names=["bus", "car", "dog", "tree"], scenario="B2-C1", test_size=0.5
    ... )
    >>> len(benchmark.train_stream)
    3
    """
    read = read_table(table, images=images, about=about, class_names=class_names)
    return _streams(read, class_names, scenario, **options)


def _streams(
    table: AnnotationTable,
    class_names: Sequence[str] | None,
    scenario: str | Experiences | Scenario,
    *,
    test_size: float = 0.2,
    seed: int = 0,
    **options: Any,
) -> MultiLabelBenchmark:
    train, test, names = split_table(table, class_names, test_size=test_size, seed=seed)
    return MultiLabelBenchmark(
        train, test, scenario, class_names=names, seed=seed, **for_photographs(**options)
    )


def split_table(
    table: AnnotationTable,
    class_names: Sequence[str] | None = None,
    *,
    test_size: float = 0.2,
    seed: int = 0,
) -> tuple[Split, Split, list[str]]:
    """Split a table into training and test images with class names, and print how it was read.

    Args:
        table: The table.
        class_names: The names that may occur; by default all that do.
        test_size: Fraction of each class's images to test on if the table has no split.
        seed: Seed of this choice.
    """
    check_number("seed", seed, 0, 2**63 - 1, whole=True)
    check_number("test_size", test_size)
    print(f"{table.source}: {table.summary}", file=sys.stderr)
    if class_names is not None:
        check_class_names(class_names)
        _check_known(table, sorted(class_names))
        table = table.about(sorted(class_names))
    if table.splits is not None:
        testing = np.array([split == "test" for split in table.splits])
    else:
        testing = _choose_test(table.labels, test_size, seed)
    train, test = (
        (_source(table, np.flatnonzero(rows)), table.labels[rows]) for rows in (~testing, testing)
    )
    return train, test, list(table.class_names)


def _source(table: AnnotationTable, rows: np.ndarray) -> Source:
    if table.pictures is None:
        return ImageFiles([table.images[row] for row in rows])
    return ImageObjects(table.pictures, rows)


def _check_known(table: AnnotationTable, names: Sequence[str]) -> None:
    for column, name in enumerate(table.class_names):
        if name not in names:
            rows = np.flatnonzero(table.labels[:, column] == 1)
            where = Path(table.images[rows[0]]).name if len(rows) else "its header"
            raise TableError(
                f"{table.source}: {where} has the label {name!r}; {_hint(name, names)}"
            )


def _choose_test(matrix: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Rows to test on: this fraction of each class, and at least one image if it has two.

    Rare classes choose first, because common ones have enough images left afterwards.
    """
    if not 0 < share < 1:
        raise ValueError(f"test_size must be between 0 and 1, got {share}")
    testing = np.zeros(len(matrix), dtype=bool)
    shuffled = np.random.default_rng(seed).permutation(len(matrix))
    positive = matrix == 1
    counts = positive.sum(axis=0)
    for column in np.argsort(counts, kind="stable"):
        wanted = max(round(share * counts[column]), int(counts[column] > 1))
        wanted -= int(positive[testing, column].sum())
        free = shuffled[positive[shuffled, column] & ~testing[shuffled]]
        testing[free[: max(wanted, 0)]] = True
    return testing


def _hint(name: str, names: Sequence[str]) -> str:
    close = nearest(name, names, count=1, cutoff=0.6)
    return f"did you mean {close!r}?" if close else f"choose from: {', '.join(names)}"
