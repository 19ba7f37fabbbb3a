"""CSV files as people and their programs write them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from rebll_avalanche.errors import MissingFileError, TableError
from rebll_avalanche.tables import read_csv

NAN = float("nan")


@pytest.fixture
def read(tmp_path):
    """A function that reads a text, in any encoding, as a table."""

    def make(text, encoding="utf-8", **options):
        path = tmp_path / "labels.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return read_csv(path, images="photos", **options)

    return make


def as_dict(table):
    """For each picture, what is known of each class."""
    return {
        os.path.basename(image): dict(zip(table.class_names, row.tolist(), strict=True))
        for image, row in zip(table.images, table.labels, strict=True)
    }


LONG = {"a.jpg": {"cat": 1, "dog": 1}, "b.jpg": {"cat": 0, "dog": 1}, "c.jpg": {"cat": 0, "dog": 0}}


@pytest.mark.parametrize(
    "text",
    [
        "file,labels\na.jpg,cat;dog\nb.jpg,dog\nc.jpg,\n",
        "a.jpg,cat|dog\nb.jpg,dog\nc.jpg,\n",
        "a.jpg,cat,dog\nb.jpg,dog\nc.jpg\n",
        "a.jpg;cat,dog\nb.jpg;dog\nc.jpg;\n",
        "file;labels\r\na.jpg;cat, dog\r\n\r\nb.jpg;dog\r\nc.jpg;\r\n",
        "image\tclass\na.jpg\tcat;dog\nb.jpg\tdog\nc.jpg\t\n",
        "sep=;\nfile;labels\na.jpg;cat,dog\nb.jpg;dog\nc.jpg;\n",
        "file,labels\na.jpg,cat\na.jpg,dog\n./b.jpg,dog\nc.jpg,\n",
        "date,file,labels,place\n2024-01-01,a.jpg,cat;dog,Ulm\n2024-01-02,b.jpg,dog,Bonn\n1,c.jpg,,\n",
        "Image Index,Finding Labels,Age\na.jpg,cat|dog,3\nb.jpg,dog,4\nc.jpg,,5\n",
        ",path,tags\n0,a.jpg,cat;dog\n1,b.jpg,dog\n2,c.jpg,\n",
        "file,when,what\na.jpg,2024-01-01,cat;dog\nb.jpg,2024-01-02,dog\nc.jpg,2024-01-02,\n",
        "file,label1,label2\na.jpg,cat,dog\nb.jpg,dog,\nc.jpg,,\n",
        "file,labels\na.jpg,cat,dog\nb.jpg,dog\nc.jpg\n",
    ],
)
def test_long_tables_are_read_however_they_are_written(read, text):
    table = read(text)
    assert as_dict(table) == LONG
    assert table.images[0] == os.path.join("photos", "a.jpg")
    assert table.summary.startswith(
        "read as: a file and its names per row, 2 classes, 0 % unknown, 3 pictures"
    )


@pytest.mark.parametrize(
    "text",
    [
        "file,cat,dog\na.jpg,1,0\nb.jpg,,1\nc.jpg,-1,0\n",
        "file;dog;cat\na.jpg;0;1\nb.jpg;1;\nc.jpg;0;NaN\n",
        "id,file,cat,dog,place\n0,a.jpg,1.0,0.0,Ulm\n1,b.jpg,nan,1.0,Bonn\n2,c.jpg,,0.0,Ulm\n",
        "file,cat,dog,date\na.jpg,True,False,2024-01-01\nb.jpg,,true,2024-01-01\nc.jpg,?,no,\n",
        ",file,cat,dog,price\n0,a.jpg,1,0,3.50\n1,b.jpg,,1,1.20\n2,c.jpg,,0,7.10\n",
        "file,cat,dog\na.jpg,1,\na.jpg,,0\nb.jpg,,1\nb.jpg,,1\nc.jpg,,0\n",
    ],
)
def test_a_column_per_class_knows_what_is_unknown(read, text):
    table = read(text)
    expected = {"a.jpg": [1, 0], "b.jpg": [NAN, 1], "c.jpg": [NAN, 0]}
    assert table.class_names == ("cat", "dog")
    assert [os.path.basename(name) for name in table.images] == list(expected)
    assert np.array_equal(table.labels, list(expected.values()), equal_nan=True)
    assert table.summary.startswith(
        "read as: one column per class, 2 classes, 33 % unknown, 3 pictures"
    )


@pytest.mark.parametrize(
    "text",
    [
        "file,class,present,probability\na.jpg,cat,1,0.1\nb.jpg,cat,0,0.9\na.jpg,dog,,0.5\n",
        "probability;Present;class;file\n0,1;1;cat;a.jpg\n0,9;0;cat;b.jpg\n0,5;;dog;a.jpg\n",
    ],
)
def test_one_label_per_row_says_nothing_about_others(read, text):
    table = read(text)
    assert table.class_names == ("cat", "dog")
    np.testing.assert_array_equal(table.labels, [[1, NAN], [0, NAN]])
    assert table.summary.startswith("read as: one label per row, 2 classes, 50 % unknown")
    assert "left out: 'probability'" in table.summary


def test_a_row_without_a_mark_is_not_read_as_present(read):
    table = read("file,class,present\na.jpg,cat,\nb.jpg,cat\n")
    assert np.isnan(table.labels).all()


def test_columns_that_are_left_out_are_named(read):
    text = "file,cat,dog,date,place\na.jpg,1,0,2024-01-01,Ulm\n"
    assert read(text).summary.endswith("; left out: 'date', 'place'")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_other_encodings_are_found(read, encoding):
    table = read("file,labels\nKöln.jpg,Vögel\nb.jpg,Bär;Vögel\n", encoding)
    assert as_dict(table) == {"Köln.jpg": {"Bär": 0, "Vögel": 1}, "b.jpg": {"Bär": 1, "Vögel": 1}}
    assert (encoding in table.summary) is not encoding.startswith("utf-8")


def test_about_says_of_which_classes_a_table_speaks(read):
    text = "file,labels\na.jpg,cat;dog\nb.jpg,dog\nc.jpg,\n"
    table = read(text, about=["owl", "cat"])
    assert table.class_names == ("owl", "cat")
    assert table.labels.tolist() == [[0, 1], [0, 0], [0, 0]]
    assert read("file,labels\nc.jpg,\n", about=["owl"]).labels.tolist() == [[0]]
    wide = "file,cat,dog\na.jpg,1,0\nb.jpg,,1\n"
    assert read(wide, about=["dog"]).labels.tolist() == [[0], [1]]
    with pytest.raises(TableError, match="no column for 'owl', so it says nothing"):
        read(wide, about=["dog", "owl"])
    with pytest.raises(TableError, match=r"'Dog' .* and 'dog' .* differ only in case"):
        read(text, about=["Dog"])
    with pytest.raises(TableError, match="must hold class names"):
        read(text, about=[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,labels\na.jpg,1\nb.jpg,0\n", "'labels' holds 1, 0 and the like, and no names"),
        ("file,labels\na.jpg,cat\nb.jpg,7\n", "line 3: '7' is a number, not the name of a class"),
        ("a.jpg,1.0,0.0\nb.jpg,0.0,1.0\n", "line 1: a column per class needs a header"),
        ("a.jpg,cat,2024-01-01\n", "line 1: '2024-01-01' is a date or time, not the name"),
        ("file,0,1\na.jpg,1,0\n", "header: '0' is a number, not the name"),
        (
            "file,labels\na.jpg,Cat\nb.jpg,cat\n",
            r"'Cat' \(line 2\) and 'cat' \(line 3\) differ only",
        ),
        ("file,labels\na.jpg,hot dog\nb.jpg,hotdog\n", "'hot dog' .* 'hotdog' .* differ only"),
        ("file,Cat,cat\na.jpg,1,0\n", "'Cat' .* 'cat' .* differ only"),
        ("file,cat,cat\na.jpg,1,0\n", "two columns called 'cat'"),
        ("file,cat,dog\na.jpg,1,0\nb.jpg,1,2\nc.jpg,0,1\n", "line 3: '2' under 'dog'"),
        ("file,cat\na.jpg,1\nb.jpg,0\na.jpg,0\n", "lines 2 and 4 contradict .* 'cat' in a.jpg"),
        ("file,cat,what\na.jpg,1,x1\nb.jpg,0,y1\n", "cannot tell whether 'what' holds names"),
        ("file,a,b\na.jpg,cat,Ulm\nb.jpg,dog,Bonn\n", "which column holds the labels, 'a' or 'b'"),
        ("a1,cat\na2,dog\n", "line 1: cannot tell whether 'a1' is a header or a picture"),
        ("file,labels,place\na.jpg,cat,Ulm,dog\n", "line 2: 4 cells under a header of 3"),
        ('file,labels\na.jpg,"cat,dog"\n', "line 2: 'cat,dog' holds a comma; separate names by ;"),
        ("file,labels\n,cat\n", "line 2: the row names no picture"),
        ('file,labels\na.jpg,"cat\nb.jpg,dog\n', "line 3: the class .* is a quote not closed"),
        ("file,labels\na.jpg,\x1b[31mcat\n", "line 2: the class .*cannot be shown"),
        ("file,labels\na.jpg,nan\n", "no names"),
        ("file,labels\n", "has no labels"),
        ("file,class,present\na.jpg,cat,maybe\n", "line 2: 'maybe' under 'present'; it holds 1, 0"),
        (
            "file,class,present\na.jpg,,1\nb.jpg,cat,1\n",
            "line 2: '' is empty, not the name of a class",
        ),
        ("file,class,present\na.jpg,cat,1\na.jpg,cat,0\n", "lines 2 and 3 contradict each other"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(read, text, message):
    with pytest.raises(TableError, match=message) as caught:
        read(text)
    assert "labels.csv" in str(caught.value)


def test_pipes_folders_and_nothing_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(TableError, match="a pipe, socket or device, not a file"):
        read_csv(tmp_path / "pipe.csv")
    with pytest.raises(TableError, match="a folder, not a file"):
        read_csv(tmp_path)
    with pytest.raises(MissingFileError, match="no label file at"):
        read_csv(tmp_path / "nowhere.csv")


def test_missing_pictures_are_counted_and_named(tmp_path):
    (tmp_path / "labels.csv").write_text("file,labels\na.jpg,cat\nb.jpg,dog\nc.jpg,dog\n")
    (tmp_path / "b.jpg").touch()
    table = read_csv(tmp_path / "labels.csv")
    assert table.missing_pictures() == [str(tmp_path / name) for name in ("a.jpg", "c.jpg")]
    with pytest.raises(FileNotFoundError, match=r"2 of 3 pictures are missing: .*a\.jpg.*c\.jpg"):
        table.require_pictures()
    (tmp_path / "A.JPG").touch()
    with pytest.raises(
        FileNotFoundError, match=r"there is A\.JPG: write names as the files have them"
    ):
        table.require_pictures()
    for name in ("a.jpg", "c.jpg"):
        (tmp_path / name).touch()
    table.require_pictures()
