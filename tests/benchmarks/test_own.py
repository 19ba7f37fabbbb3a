"""Own pictures from a CSV file."""

from __future__ import annotations

import pytest
import torch

from rebll_avalanche.benchmarks import from_csv


@pytest.fixture
def write(picture_files, tmp_path):
    """A function that writes ten pictures and a CSV file, and returns what from_csv needs."""

    def make(text):
        pictures = picture_files(10)
        (tmp_path / "labels.csv").write_text(text)
        return {"labels": tmp_path / "labels.csv", "images": pictures[0].parent}

    return make


def load(files, scenario="B1-C1", **options):
    return from_csv(files["labels"], images=files["images"], scenario=scenario, **options)


def names(benchmark, experience):
    return [
        [benchmark.class_names[column] for column in row.nonzero().flatten().tolist()]
        for row in experience.full_targets
    ]


ROWS = "".join(f"{i:03d}.jpg,{'cat' if i % 2 else 'dog'}\n" for i in range(10))


def test_a_file_name_and_label_names_per_row_are_enough(write):
    benchmark = load(write(ROWS), image_size=16)
    assert benchmark.class_names == ["cat", "dog"]
    assert len(benchmark.test_stream[-1].dataset) == 2
    assert sum(len(e.dataset) for e in benchmark.train_stream) == 8
    x, y = benchmark.train_stream[0].dataset[0]
    assert (tuple(x.shape), tuple(y.shape)) == ((3, 16, 16), (2,))


def test_a_split_column_decides_who_is_tested(write):
    text = (
        "file,labels,split\n000.jpg,dog;cat,train\n001.jpg,cat | dog,train\n"
        "002.jpg,dog,train\n\n003.jpg,cat,test\n"
    )
    benchmark = load(write(text))
    first, second = benchmark.train_stream
    assert names(benchmark, first) == [["cat", "dog"], ["cat", "dog"]]
    assert names(benchmark, second) == [["cat", "dog"], ["cat", "dog"], ["dog"]]
    assert [len(e.dataset) for e in benchmark.test_stream] == [1, 1]


def test_labels_may_have_columns_and_rows_of_their_own(write):
    text = (
        "file,split,a,b\n000.jpg,train,dog,cat\n001.jpg,train,,owl\n001.jpg,train,cat\n"
        "002.jpg,test,cat,\n"
    )
    benchmark = load(write(text), scenario=[["owl", "cat"], ["dog"]])
    assert benchmark.class_names == ["owl", "cat", "dog"]
    assert names(benchmark, benchmark.train_stream[0]) == [["cat", "dog"], ["owl", "cat"]]


def test_each_class_is_tested_on_its_share_chosen_by_seed(write):
    files = write("000.jpg,owl;cat\n001.jpg,owl\n" + ROWS[24:])

    def tested(seed):
        benchmark = load(files, "B3-C0", test_size=0.25, seed=seed)
        pictures = tuple(float(x.sum()) for x, _ in benchmark.test_stream[-1].dataset)
        return pictures, names(benchmark, benchmark.test_stream[-1])

    for seed in range(4):
        _, found = tested(seed)
        assert sum("owl" in row for row in found) == 1, "one of two"
        assert sum("dog" in row for row in found) == 1, "a quarter of four"
        assert len(found) < 6
    assert tested(1) == tested(1)
    assert len({tested(seed)[0] for seed in range(4)}) > 1


def test_a_name_nobody_knows_gets_a_suggestion(write):
    files = write(ROWS.replace("003.jpg,cat", "003.jpg,kat"))
    with pytest.raises(ValueError, match=r"003\.jpg has the label 'kat'; did you mean 'cat'\?"):
        load(files, class_names=["cat", "dog"])
    with pytest.raises(ValueError, match="'kat'; choose from: mouse"):
        load(write("000.jpg,kat\n"), class_names=["mouse"])


def test_what_is_missing_or_not_a_table_is_named(write, tmp_path):
    files = write(ROWS)
    with pytest.raises(FileNotFoundError, match="no label file at"):
        load({**files, "labels": tmp_path / "nowhere.csv"})
    with pytest.raises(FileNotFoundError, match=r"train images cannot be used: .*\(missing\)"):
        load({**files, "images": tmp_path / "nowhere"})
    with pytest.raises(ValueError, match="test_size must be between 0 and 1, got 2"):
        load(files, test_size=2)
    with pytest.raises(ValueError, match="has no labels"):
        load(write("file,labels\n000.jpg,\n"))
    with pytest.raises(ValueError, match="has no labels"):
        load(write(""))
    with pytest.raises(ValueError, match=r"split of 000\.jpg must be train or test.*'dev'"):
        load(write("file,labels,split\n000.jpg,cat,dev\n"))


def test_written_scenes_give_the_streams_they_were_written_from(scenes, tmp_path):
    for _ in range(2):
        scenes.write_csv(tmp_path)
    benchmark = from_csv(tmp_path / "labels.csv", images=tmp_path / "images", scenario="B5-C3")
    assert benchmark.class_names == scenes.class_names
    for name in ("train", "test"):
        for ours, theirs in zip(benchmark.streams[name], scenes.streams[name], strict=True):
            assert torch.equal(ours.full_targets, theirs.full_targets)
