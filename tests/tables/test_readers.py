"""Other people's forms: COCO, VOC, folders, Label Studio, data frames, data sets, arrays."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from rebll_avalanche.benchmarks import MultiLabelScenes, from_table
from rebll_avalanche.errors import MissingFileError, TableError
from rebll_avalanche.tables import read_table
from rebll_avalanche.tables.coco import read_coco_file
from rebll_avalanche.tables.voc import read_voc_folder

NAN = float("nan")


@pytest.fixture(scope="module")
def scenes():
    return MultiLabelScenes("B5-C3", train_size=30, test_size=30, image_size=24)


def test_coco_gives_what_pycocotools_gives(coco_root):
    tools = pytest.importorskip("pycocotools.coco")
    path = coco_root / "annotations" / "instances_val2014.json"
    table = read_coco_file(path)
    theirs = tools.COCO(str(path))
    for row in range(0, len(table), 97):
        (key,) = (k for k, v in theirs.imgs.items() if v["file_name"] == table.images[row])
        plain = theirs.loadAnns(theirs.getAnnIds(imgIds=[key], iscrowd=False))
        expected = {theirs.cats[entry["category_id"]]["name"] for entry in plain}
        found = {table.class_names[column] for column in np.flatnonzero(table.labels[row])}
        assert found == expected
    assert len(table) == len(theirs.imgs)


def test_written_data_sets_are_recognised(scenes, tmp_path):
    truth = scenes.scenes["train"].labels
    scenes.write_coco(tmp_path / "coco")
    coco = read_table(
        tmp_path / "coco" / "annotations" / "instances_train2014.json",
        images=tmp_path / "coco" / "train2014",
    )
    scenes.write_voc(tmp_path / "voc")
    voc = read_table(tmp_path / "voc" / "VOCdevkit" / "VOC2007")
    scenes.write_csv(tmp_path / "csv")
    csv = read_table(tmp_path / "csv" / "labels.csv", images=tmp_path / "csv" / "images")
    for table in (coco, voc, csv):
        table.require_pictures()
        assert list(table.class_names) == sorted(scenes.class_names)
        assert np.array_equal(table.labels[:30], truth)
    assert "COCO annotations, 20 classes, 0 % unknown, 30 pictures" in coco.summary
    assert "VOC annotations, 20 classes, 0 % unknown, 60 pictures" in voc.summary


def good_coco():
    return {
        "images": [{"id": 2, "file_name": "b.jpg"}, {"id": 1, "file_name": "a.jpg"}],
        "categories": [{"id": 7, "name": "dog"}, {"id": 5, "name": "cat"}],
        "annotations": [{"image_id": 2, "category_id": 5}, {"image_id": 2, "category_id": 5}],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("annotations"), "annotations must be a list, got nothing"),
        (lambda c: c.update(images={}), "images must be a list, got dict"),
        (lambda c: c.update(annotations=[3]), r"annotations\[0\] must be an object, got '3'"),
        (lambda c: c["images"][1].pop("id"), r"images\[1\]\.id must be a number, got nothing"),
        (lambda c: c["images"][1].update(id=[]), r"images\[1\]\.id must be a number, got list"),
        (lambda c: c["images"][1].update(file_name=3), r"images\[1\]\.file_name must be a name"),
        (
            lambda c: c["annotations"][0].update(image_id=9),
            r"annotations\[0\]\.image_id must be the",
        ),
        (lambda c: c["annotations"][0].update(category_id={}), r"category_id must be the id of"),
        (lambda c: c["categories"][0].update(name="cat"), "two categories are called 'cat'"),
        (lambda c: c["categories"][0].update(name="1"), "'1' is a number, not the name"),
        (lambda c: c["categories"][0].update(name="Cat"), "differ only in case"),
        (lambda c: c["categories"][0].update(id=5), r"categories\[1\] has the id 5 of another"),
    ],
)
def test_a_wrong_structure_of_coco_is_named(tmp_path, change, message):
    content = good_coco()
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(content))
    assert read_table(path).labels.tolist() == [[0, 0], [1, 0]]
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(TableError, match=message):
        read_coco_file(path)


def test_deep_or_broken_json_is_refused(tmp_path):
    path = tmp_path / "coco.json"
    for text in ("[" * 200_000, '{"images": [', "[1]", '"text"', "3", "", '[{"data": 3}]'):
        path.write_text(text)
        with pytest.raises(TableError, match=r"coco\.json"):
            read_table(path)


def test_broken_xml_is_refused(tmp_path):
    (tmp_path / "Annotations").mkdir()
    path = tmp_path / "Annotations" / "a.xml"
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    for text in (
        "<annotation><object>",
        '<?xml version="1.0" encoding="nobody"?><a/>',
        '<?xml version="1.0" encoding="utf-7"?><a/>',
        f'<!DOCTYPE a [<!ENTITY l0 "ha">{laughs}]><a>&l11;</a>',
        "<a><object><name>7</name></object></a>",
        "<a><object/></a>",
        "",
    ):
        path.write_text(text)
        with pytest.raises(TableError, match=r"a\.xml"):
            read_voc_folder(tmp_path)
    path.write_text("<a>" * 50_000 + "<object><name>cat</name></object>" + "</a>" * 50_000)
    assert read_voc_folder(tmp_path).class_names == ("cat",)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(TableError, match="a pipe, socket or device"):
        read_voc_folder(tmp_path)


def fill(folder, names):
    folder.mkdir(parents=True)
    for name in names:
        Image.new("RGB", (4, 4)).save(folder / name)


def test_a_folder_per_class(tmp_path):
    fill(tmp_path / "all" / "cat", ["a.jpg", "b.png"])
    fill(tmp_path / "all" / "dog" / "more", ["a.jpg"])
    (tmp_path / "all" / ".hidden").mkdir()
    (tmp_path / "all" / "cat" / "notes.txt").touch()
    table = read_table(tmp_path / "all")
    assert table.class_names == ("cat", "dog")
    assert table.labels.tolist() == [[1, 0], [1, 0], [0, 1]]
    assert table.missing_pictures() == []
    for split in ("train", "test"):
        fill(tmp_path / "split" / split / "cat", ["a.jpg"])
    assert read_table(tmp_path / "split").splits == ("test", "train")
    assert read_table(tmp_path / "split").class_names == ("cat",)
    (tmp_path / "split" / "val").mkdir()
    with pytest.raises(TableError, match="divided into test, train, val"):
        read_table(tmp_path / "split")
    fill(tmp_path / "numbers" / "0", ["a.jpg"])
    with pytest.raises(TableError, match="'0' is a number"):
        read_table(tmp_path / "numbers")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFileError, match="there is no picture"):
        read_table(tmp_path / "empty")


def choices(*names, **more):
    result = [{"type": "choices", "value": {"choices": list(names)}}] if names else []
    return {"result": result, "was_cancelled": False} | more


def test_label_studio_exports(tmp_path):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).touch()
    tasks = [
        {
            "data": {"image": "/data/upload/1/0a1b2c3d-a.jpg"},
            "annotations": [choices("cat", "dog")],
        },
        {"data": {"image": "/data/local-files/?d=b.jpg"}, "annotations": [choices()]},
        {
            "data": {"image": "https://x.org/y/c%20d.jpg?z=1"},
            "annotations": [choices("dog"), choices()],
        },
        {"data": {"image": "e.jpg"}, "annotations": []},
        {"data": {"image": "f.jpg"}, "annotations": [choices("owl", was_cancelled=True)]},
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    table = read_table(path)
    assert [os.path.basename(name) for name in table.images] == ["a.jpg", "b.jpg", "c d.jpg"]
    assert table.class_names == ("cat", "dog")
    assert np.array_equal(table.labels, [[1, 1], [0, 0], [0, NAN]], equal_nan=True)
    assert table.summary.endswith(
        "3 pictures; 2 tasks without an annotation are left out; "
        "1 labels that annotators disagree about are unknown"
    )
    small = [
        {"image": "a.jpg", "choice": "cat", "id": 1, "annotator": 1},
        {"image": "b.jpg", "choice": {"choices": ["cat", "dog"]}, "id": 2},
        {"image": "c.jpg", "label": [{"x": 1, "rectanglelabels": ["dog"]}], "id": 3},
    ]
    path.write_text(json.dumps(small))
    assert read_table(path).labels.tolist() == [[1, 0], [1, 1], [0, 1]]


def test_data_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    long = pandas.DataFrame({"file": ["a.jpg", "b.jpg"], "labels": [["cat", "dog"], []]})
    assert read_table(long).labels.tolist() == [[1, 1], [0, 0]]
    wide = pandas.DataFrame(
        {"cat": [1, None], "dog": [0.0, 1.0], "day": pandas.to_datetime(["2024-01-01"] * 2)},
        index=["a.jpg", "b.jpg"],
    )
    table = read_table(wide, images="photos")
    assert np.array_equal(table.labels, [[1, 0], [NAN, 1]], equal_nan=True)
    assert table.images == (os.path.join("photos", "a.jpg"), os.path.join("photos", "b.jpg"))
    booleans = pandas.DataFrame({"file": ["a.jpg"], "cat": pandas.array([pandas.NA], "boolean")})
    booleans["dog"] = True
    with pytest.raises(TableError, match="no column for 'cat'"):
        read_table(booleans, about=["cat"])
    assert read_table(booleans).labels.tolist() == [[1]]
    with pytest.raises(TableError, match="line 1: '3' is a number"):
        read_table(pandas.DataFrame({"file": ["a.jpg"], "labels": [[3]]}))


class Dataset:
    """What this package uses of a Hugging Face data set."""

    def __init__(self, columns, features):
        self.columns, self.features, self.column_names = columns, features, list(columns)

    def __len__(self):
        return len(self.columns["image"])

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.columns[key]
        return {name: column[key] for name, column in self.columns.items()}


def test_data_sets_like_those_of_hugging_face():
    picture = type("Image", (), {})()
    names = SimpleNamespace(names=["dog", "cat", "owl"])
    pictures = [Image.new("RGB", (9, 9), (40 * i, 0, 0)) for i in range(6)]
    many = Dataset(
        {"image": pictures, "labels": [[0, 1], [0], [1], [0, 1], [1], []]},
        {"image": picture, "labels": SimpleNamespace(feature=names)},
    )
    table = read_table(many)
    assert table.class_names == ("cat", "dog", "owl")
    assert table.labels[[0, 1, 5]].tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    benchmark = from_table(many, scenario="B1-C1", about=["cat", "dog"], image_size=8)
    x, y = benchmark.test_stream[-1].dataset[0]
    assert (tuple(x.shape), tuple(y.shape)) == ((3, 8, 8), (2,))
    one = Dataset(
        {"image": pictures, "label": [0, 1, 2, 0, 1, 2]}, {"image": picture, "label": names}
    )
    assert read_table(one).labels.argmax(axis=1).tolist() == [1, 0, 2, 1, 0, 2]
    one.columns["label"][3] = 9
    with pytest.raises(TableError, match="row 3: 9 is none of its 3 classes"):
        read_table(one)
    with pytest.raises(TableError, match=r"which column .* holds the labels"):
        read_table(Dataset({"image": pictures}, {"image": picture}))
    with pytest.raises(TableError, match="choose one split of the data set: train, test"):
        read_table({"train": one, "test": one})


def test_pictures_and_a_matrix():
    matrix = [[1, 0], [NAN, 1], [-1, 0], [1, NAN]]
    table = read_table((["a.jpg", "b.jpg", "c.jpg", "./a.jpg"], matrix), class_names=["cat", "dog"])
    assert table.images == ("a.jpg", "b.jpg", "c.jpg")
    assert np.array_equal(table.labels, [[1, 0], [NAN, 1], [NAN, 0]], equal_nan=True)
    pictures = np.zeros((2, 4, 4, 3), np.uint8)
    assert read_table((pictures, matrix[:2]), class_names=["cat", "dog"]).pictures is pictures
    for labels, names, message in (
        (matrix, None, "needs the names of its columns"),
        (matrix, ["cat", "1"], "'1' is a number"),
        (matrix, ["cat", "cat"], "a name twice"),
        (matrix, ["cat"], r"need labels of shape \(4, 1\), got \(4, 2\)"),
        ([[1, 0], [0, 2], [0, 0], [0, 0]], ["cat", "dog"], "got 2 in row 1 under 'dog'"),
        ([[1, 0], [0, 1], [0, 0], [0, 0]], ["cat", "dog"], "rows 0 and 3 contradict .* 'cat' in a"),
        ("nonsense", ["cat"], "do not make a table"),
    ):
        with pytest.raises(TableError, match=message):
            read_table((["a.jpg", "b.jpg", "c.jpg", "a.jpg"], labels), class_names=names)
    for nothing in (None, 3, (), object()):
        with pytest.raises(TableError, match="a table must be a file, a folder"):
            read_table(nothing)
