"""Whatever comes from outside: answered, or refused by one of this package's own errors."""

from __future__ import annotations

import copy
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rebll_avalanche.errors import RebllError
from rebll_avalanche.scenario import Scenario
from rebll_avalanche.tables import read_table
from rebll_avalanche.tables.voc import read_objects


def budget(examples):
    """The same examples in every run."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def refused_or_read(path):
    """Read a table; what is read must fit together, what is refused must be named."""
    try:
        table = read_table(path)
    except RebllError as error:
        assert os.path.basename(path) in str(error)  # noqa: PT017
        return
    assert table.labels.shape == (len(table.images), len(table.class_names))
    assert len(set(table.images)) == len(table.images)
    assert table.summary.startswith("read as: ")
    table.missing_pictures()


CELLS = st.sampled_from(
    ["a.jpg", "b.png", "file", "labels", "split", "train", "cat", "Cat", "dog;cat", "1", "0", "-1",
     "2.5", "nan", "", '"', "2024-01-01", "c,d", "\x00", "ä", "id", "x" * 300, "../e.jpg", "\ud800"]
)  # fmt: skip
ROWS = st.lists(st.lists(CELLS, max_size=5), max_size=6)


@budget(300)
@given(rows=ROWS, separator=st.sampled_from(",;\t|"), encoding=st.sampled_from(["utf-8", "utf-16"]))
def test_tables_of_cells(tmp_path, rows, separator, encoding):
    text = "\n".join(separator.join(row) for row in rows)
    (tmp_path / "labels.csv").write_bytes(text.encode(encoding, "surrogatepass"))
    refused_or_read(tmp_path / "labels.csv")


@budget(200)
@given(content=st.binary(max_size=80), start=st.sampled_from([b"", b"file,labels\na.jpg,cat\n"]))
def test_tables_of_bytes(tmp_path, content, start):
    for name in ("labels.csv", "labels.json"):
        (tmp_path / name).write_bytes(start + content)
        refused_or_read(tmp_path / name)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats()
    | st.sampled_from(["", "cat", "a.jpg"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["id", "data", "image", "choices", "x"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)
COCO = {
    "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 2, "iscrowd": 0}],
}
TASKS = [
    {
        "data": {"image": "/data/upload/1/0a1b2c3d-a.jpg"},
        "annotations": [{"result": [{"value": {"choices": ["cat"]}}], "was_cancelled": False}],
    },
    {
        "image": "b.jpg",
        "choice": {"choices": ["cat", "dog"]},
        "label": [{"rectanglelabels": ["a"]}],
    },
]


def places(content, above=()):
    """The way to every value in nested lists and dictionaries."""
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in entries:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


@budget(300)
@given(data=st.data())
@pytest.mark.parametrize("whole", [COCO, TASKS], ids=["coco", "label studio"])
def test_changed_json(tmp_path, whole, data):
    content = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(list(places(content))))
        inside = content
        for key in way:
            inside = inside[key]
        inside[last] = data.draw(VALUES)
    (tmp_path / "labels.json").write_text(json.dumps(content))
    refused_or_read(tmp_path / "labels.json")


XML = b"""<?xml version="1.0" encoding="utf-8"?><annotation><object><name>cat</name>
<difficult>1</difficult></object><object><name>dog</name></object></annotation>"""


@budget(300)
@given(data=st.data())
def test_changed_xml(tmp_path, data):
    content = bytearray(XML)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(start + 9, len(content))))
        content[start:end] = data.draw(
            st.binary(max_size=6) | st.sampled_from([b"<object>", b"&a;"])
        )
    (tmp_path / "a.xml").write_bytes(content)
    try:
        assert all(isinstance(name, str) for name, _ in read_objects(tmp_path / "a.xml"))
    except RebllError as error:
        assert "a.xml" in str(error)  # noqa: PT017


ANYTHING = (
    st.none() | st.integers(-2, 5) | st.floats() | st.sampled_from(["cat", "B1-C1", "B0-C0", "1"])
)


@budget(300)
@given(
    scenario=ANYTHING | st.lists(ANYTHING | st.lists(ANYTHING, max_size=3), max_size=3),
    order=ANYTHING | st.lists(ANYTHING, max_size=3),
)
def test_scenarios_of_anything(scenario, order):
    try:
        parsed = Scenario.parse(scenario, class_names=["cat", "dog", "1"], class_order=order)
    except ValueError as error:
        assert str(error)  # noqa: PT017
        return
    assert sorted(parsed.class_order) == [0, 1, 2]


def test_nothing_is_no_scenario():
    for scenario in (None, 3, [None], [[None]], [["cat"], [1.5]]):
        with pytest.raises(ValueError, match=r"got|not one of the data set's"):
            Scenario.parse(scenario, class_names=["cat", "dog"])
