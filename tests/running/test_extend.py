"""A finished run learns new classes from new images."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tqdm import tqdm

from rebll_avalanche.benchmarks import MultiLabelBenchmark, multilabel_benchmark
from rebll_avalanche.benchmarks.extension import ExtendedBenchmark, read_new_images
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.memory import Provenance
from rebll_avalanche.models import build_model
from rebll_avalanche.running.extend import extend_run
from rebll_avalanche.running.folder import is_finished, read_config
from rebll_avalanche.running.progress import EpochsOnBar
from rebll_avalanche.running.run import run_experiment
from rebll_avalanche.strategies import get_method

SIZE = 8
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "grey": (90, 90, 90)}


def picture(labels: list[str], seed: int) -> np.ndarray:
    """Noise, and a block of each label's colour in a corner of its own."""
    image = np.random.default_rng(seed).integers(0, 60, (SIZE, SIZE, 3)).astype(np.uint8)
    for name in labels:
        place = list(COLOURS).index(name)
        top, left = 4 * (place // 2), 4 * (place % 2)
        image[top : top + 4, left : left + 4] = COLOURS[name]
    return image


@pytest.fixture(scope="module")
def pictures() -> MultiLabelBenchmark:
    """Red in the first experience, green in the second."""
    names = ["red", "green"]
    labels = np.array([[1, 0], [0, 1], [1, 1]] * 10, dtype=np.float32)
    images = np.stack(
        [
            picture([name for name, there in zip(names, row, strict=True) if there], seed)
            for seed, row in enumerate(labels)
        ]
    )
    split = (images[:20], labels[:20]), (images[20:], labels[20:])
    return multilabel_benchmark(*split, [["red"], ["green"]], class_names=names)


@pytest.fixture
def new_labels(tmp_path: Path) -> Path:
    """Blue, sometimes beside red; some pictures have red alone, one has nothing."""
    folder = tmp_path / "new"
    folder.mkdir()
    with (folder / "labels.csv").open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["file", "labels", "split"])
        for index in range(14):
            labels = (["blue"], ["blue", "red"], ["red"])[index % 3]
            Image.fromarray(picture(labels, 100 + index)).save(folder / f"{index}.png")
            writer.writerow([f"{index}.png", ";".join(labels), "test" if index > 9 else "train"])
        Image.fromarray(picture([], 200)).save(folder / "nothing.png")
        writer.writerow(["nothing.png", "", "train"])
    return folder / "labels.csv"


@pytest.fixture
def config() -> Config:
    return Config.from_dict(
        {
            "model": {"backbone": "small_cnn"},
            "method": {"name": "rebll", "mem_size": 6},
            "training": {"epochs": 2, "batch_size": 8, "device": "cpu"},
        }
    )


def test_what_the_new_experience_knows(pictures: MultiLabelBenchmark, new_labels: Path) -> None:
    new = read_new_images(new_labels, new_labels.parent, image_size=SIZE)
    extended = ExtendedBenchmark(pictures, new)
    assert extended.class_names == ["red", "green", "blue"]
    assert extended.scenario.sizes == (1, 1, 1)
    train = extended.train_stream[2]
    labels = train.dataset.targets.data
    assert len(labels) == 11  # pictures without blue, and one without anything, are its negatives
    assert torch.isnan(labels[:, 1]).all()  # the table does not name green
    assert labels[:, 0].tolist() == [index % 3 != 0 for index in range(10)] + [0]
    assert labels[:, 2].tolist() == [index % 3 != 2 for index in range(10)] + [0]
    assert train.previous_classes == {0, 1}
    assert train.new_classes == {2}
    assert train.annotated_classes == {0, 2}
    assert torch.equal(train.full_targets.nan_to_num(7), labels.nan_to_num(7))
    test = extended.test_stream[2].dataset.targets.data
    old, fresh = test[:10], test[10:]
    assert torch.isnan(old[:, 2]).all()
    assert not torch.isnan(old[:, :2]).any()
    assert torch.isnan(fresh[:, 1]).all()
    assert not torch.isnan(fresh[:, [0, 2]]).any()
    for dataset in (train.dataset, train.dataset.eval(), extended.test_stream[2].dataset):
        assert dataset[len(dataset) - 1][0].shape == (3, SIZE, SIZE)
    # Earlier experiences keep their images, so that a memory finds its own again.
    assert torch.equal(
        extended.train_stream[0].dataset[3][0], pictures.train_stream[0].dataset[3][0]
    )
    assert extended.train_stream[0].full_targets.shape[1] == 3


@pytest.mark.parametrize("method", ["der++", "podnet", "er-prs", "lwf", "rebll-best"])
def test_other_methods_learn_a_new_class_too(
    tmp_path: Path, pictures: MultiLabelBenchmark, new_labels: Path, config: Config, method: str
) -> None:
    options = {} if method == "lwf" else {"mem_size": 6}
    config = replace(config, method={"name": method, **options})
    run_experiment(config, tmp_path / "run", benchmark=pictures)
    records = extend_run(tmp_path / "run", new_labels, new_labels.parent, benchmark=pictures)
    assert [record["classes_seen"] for record in records] == [1, 2, 3]


def test_a_run_learns_a_new_class_and_fills_its_memory(
    tmp_path: Path, pictures: MultiLabelBenchmark, new_labels: Path, config: Config
) -> None:
    folder = tmp_path / "run"
    before = run_experiment(config, folder, benchmark=pictures)
    records = extend_run(folder, new_labels, new_labels.parent, benchmark=pictures)
    before[-1]["relabelling_blocks"] = []  # only the newest line has them
    assert records[:2] == before
    assert records[2]["classes_seen"] == 3
    assert "blue" in records[2]["per_class_ap"]
    content = read_config(folder)
    assert content["class_names"] == ["red", "green", "blue"]
    memory = np.load(folder / "memory.npz")
    assert memory["labels"].shape == (6, 3)
    assert (memory["provenance"] != int(Provenance.UNKNOWN)).all()
    assert memory["class_ends"].tolist() == [1, 2, 3]
    assert extend_run(folder, new_labels, new_labels.parent, benchmark=pictures) == records


def test_a_missing_new_image_is_refused_with_the_way_out_or_skipped(
    tmp_path: Path, pictures: MultiLabelBenchmark, new_labels: Path, config: Config
) -> None:
    folder = tmp_path / "run"
    run_experiment(config, folder, benchmark=pictures)
    (new_labels.parent / "0.png").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"0\.png \(missing\).*rebll extend: --on-error skip"
    ):
        extend_run(folder, new_labels, new_labels.parent, benchmark=pictures)
    with pytest.warns(UserWarning, match="they are skipped"):
        records = extend_run(
            folder, new_labels, new_labels.parent, on_error="skip", benchmark=pictures
        )
    assert records[2]["classes_seen"] == 3
    assert read_config(folder)["extensions"][0]["on_error"] == "skip"


@pytest.mark.parametrize("method", ["closed-form", "l3a", "rebll-closed-form"])
def test_sums_are_extended_like_anything_else(
    tmp_path: Path, pictures: MultiLabelBenchmark, new_labels: Path, config: Config, method: str
) -> None:
    folder = tmp_path / "run"
    options = {"mem_size": 6} if method.startswith("rebll") else {}
    run_experiment(replace(config, method={"name": method, **options}), folder, benchmark=pictures)
    records = extend_run(folder, new_labels, new_labels.parent, benchmark=pictures)
    learned = records[2]["per_class_ap"]
    assert learned.keys() == {"red", "green", "blue"}
    if method == "closed-form":  # nothing learned is lost, and the new class is found
        assert learned["blue"] > 0.9
        assert learned["red"] > records[1]["per_class_ap"]["red"] - 0.1


def test_a_stopped_extension_goes_on_in_the_same_bits(
    tmp_path: Path,
    pictures: MultiLabelBenchmark,
    new_labels: Path,
    config: Config,
    final_bits: Callable[[Path], dict[str, bytes]],
) -> None:
    for name in ("whole", "stopped"):
        run_experiment(config, tmp_path / name, benchmark=pictures)
    extend_run(tmp_path / "whole", new_labels, new_labels.parent, benchmark=pictures)

    class Stopper(EpochsOnBar):
        def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
            if strategy.clock.train_exp_epochs == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extend_run(
            tmp_path / "stopped",
            new_labels,
            new_labels.parent,
            benchmark=pictures,
            watcher=Stopper(tqdm(disable=True)),
        )
    assert not is_finished(tmp_path / "stopped")
    with pytest.raises(ValueError, match="not finished"):
        extend_run(tmp_path / "stopped", *_other_table(new_labels), benchmark=pictures)
    extend_run(tmp_path / "stopped", new_labels, new_labels.parent, benchmark=pictures)
    assert final_bits(tmp_path / "stopped") == final_bits(tmp_path / "whole")


def _other_table(labels: Path) -> tuple[Path, Path]:
    other = labels.with_name("other.csv")
    other.write_text(labels.read_text().replace("blue", "grey"))
    return other, labels.parent


@pytest.mark.parametrize("method", ["rebll", "lwf", "der++"])
def test_more_pictures_of_known_classes_are_learned_too(
    tmp_path: Path, pictures: MultiLabelBenchmark, new_labels: Path, config: Config, method: str
) -> None:
    folder = tmp_path / "run"
    config = replace(config, method={"name": method} | ({} if method == "lwf" else {"mem_size": 6}))
    run_experiment(config, folder, benchmark=pictures)
    new_labels.write_text(new_labels.read_text().replace("blue", "green"))
    records = extend_run(folder, new_labels, new_labels.parent, benchmark=pictures)
    assert [record["classes_seen"] for record in records] == [1, 2, 2]
    assert records[2]["per_class_ap"].keys() == {"red", "green"}
    assert read_config(folder)["class_names"] == ["red", "green"]
    with pytest.raises(FileNotFoundError, match="no label table"):
        extend_run(folder, tmp_path / "none.csv", tmp_path, benchmark=pictures)


def test_a_class_of_one_picture_is_a_class(tmp_path: Path, new_labels: Path) -> None:
    lines = new_labels.read_text().splitlines()
    lines[1] = "0.png,azure;blue,train"
    new_labels.write_text("\n".join(lines))
    new = read_new_images(new_labels, new_labels.parent, image_size=SIZE)
    assert new.class_names == ["azure", "blue", "red"]
    assert new.train_stream[0].dataset.targets.data[:, 0].sum() == 1


def test_what_is_no_run_is_left_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a run"):
        extend_run(tmp_path / "nowhere", labels=tmp_path / "labels.csv", images=tmp_path)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("method", ["lwf", "rebll"])
def test_a_new_class_is_not_seen_everywhere(method: str) -> None:
    """One class in an eighth of the new images: the others are its negatives."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(900, 8, generator=generator)
    rule = torch.randn(8, 5, generator=generator)
    score = x @ rule / rule.norm(dim=0)
    y = (score > torch.tensor([0.5, 0.5, 0.5, 0.5, 1.15])).float()
    assert 0.1 < y[:, 4].mean() < 0.15
    old, new, held_out = slice(0, 300), slice(300, 600), slice(600, 900)
    before = multilabel_benchmark((x[old], y[old, :4]), (x[held_out], y[held_out, :4]), "B2-C2")
    fresh = multilabel_benchmark(
        (x[new], y[new, 4:]), (x[held_out], y[held_out, 4:]), [(range(300), [0])], class_names=["4"]
    )
    extended = ExtendedBenchmark(before, fresh)
    assert extended.train_stream[2].annotated_classes == {4}
    torch.manual_seed(0)
    model = build_model("vector", in_features=8)
    strategy = get_method(method).build(
        model=model, optimizer=torch.optim.Adam(model.parameters(), lr=0.02), train_epochs=10
    )
    for experience in extended.train_stream:
        strategy.train(experience)
    with torch.no_grad():
        called = model.eval()(x[held_out])[:, 4] > 0
    has_it = y[held_out, 4] == 1
    assert called[~has_it].float().mean() < 0.2
    assert called[has_it].float().mean() > 0.3
