"""Whatever comes from outside: answered, or refused by one of this package's own errors."""

from __future__ import annotations

import copy
import json
import os

import numpy as np
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rebll_avalanche import Learner, losses, metrics
from rebll_avalanche.checkpointing.checkpoint import (
    HASHES,
    STATE,
    TENSORS,
    CheckpointFolder,
    Moment,
)
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.recipe import read_recipe
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.files import file_hash
from rebll_avalanche.learner.file import read_learner, write_learner
from rebll_avalanche.manifest import changed_files, write_manifest
from rebll_avalanche.memory.sampling import POLICIES
from rebll_avalanche.run_files import CONFIG, read_settings
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


def changed(data, whole, values=VALUES):
    """A copy with one or two values replaced or taken out."""
    content = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(list(places(content))))
        inside = content
        for key in way:
            inside = inside[key]
        if isinstance(inside, dict) and data.draw(st.integers(0, 5)) == 0:
            del inside[last]
        else:
            inside[last] = data.draw(values)
    return content


def changed_bytes(data, whole, pieces):
    """Bytes of which a few are others, gone, or more."""
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(start + 9, len(content))))
        content[start:end] = data.draw(st.binary(max_size=6) | st.sampled_from(pieces))
    return bytes(content)


@budget(300)
@given(data=st.data())
@pytest.mark.parametrize("whole", [COCO, TASKS], ids=["coco", "label studio"])
def test_changed_json(tmp_path, whole, data):
    (tmp_path / "labels.json").write_text(json.dumps(changed(data, whole)))
    refused_or_read(tmp_path / "labels.json")


XML = b"""<?xml version="1.0" encoding="utf-8"?><annotation><object><name>cat</name>
<difficult>1</difficult></object><object><name>dog</name></object></annotation>"""


@budget(300)
@given(data=st.data())
def test_changed_xml(tmp_path, data):
    (tmp_path / "a.xml").write_bytes(changed_bytes(data, XML, [b"<object>", b"&a;"]))
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


SETTINGS = {
    "benchmark": {"name": "scenes", "scenario": "B2-C2", "image_size": 8, "features": None},
    "model": {"backbone": "vector", "head": "linear"},
    "method": {"name": "rebll", "mem_size": 6, "alpha": 1.2},
    "training": {"epochs": 1, "lr": 0.05, "schedule": "cosine"},
    "evaluation": {"thresholds": [0.8, 0.5]},
    "seed": 0,
    "class_names": ["cat", "dog"],
    "environment": {"threads": 1, "input_shape": [3, 8, 8]},
    "extensions": [{"labels": "a.csv", "sha256": "0"}],
}
# What YAML's own reader stumbles over, and what nobody means.
TWISTS = (
    *(
        b"!!bool x",
        b"!!timestamp x",
        b"!!int ''",
        b"!!float ''",
        b"&a [*a]",
        b"{2024-01-01: 1, a: 2}",
    ),
    *(
        b"!!python/object:os.system {}",
        b"? [a]",
        b"<<: 3",
        b"9" * 5000,
        b".nan",
        b"[" * 3,
        b"\x00",
        b"\t",
    ),
)


@budget(60)
@given(data=st.data())
def test_changed_settings(tmp_path, data):
    """As the recipe of a run, and as the record of one."""
    path = tmp_path / CONFIG
    text = yaml.safe_dump(changed(data, SETTINGS)).encode()
    path.write_bytes(changed_bytes(data, text, TWISTS) if data.draw(st.booleans()) else text)
    try:
        Config.from_dict(read_settings(path))
    except ValueError as error:
        assert str(error)  # noqa: PT017
    try:
        Config.from_dict(read_recipe(path)[0])
    except ValueError as error:
        assert str(error)  # noqa: PT017
    write_manifest(tmp_path)
    assert changed_files(tmp_path) == []


@pytest.mark.parametrize("twist", TWISTS)
def test_a_twisted_value_is_refused_by_name(tmp_path, twist):
    (tmp_path / "recipe.yaml").write_bytes(b"training: " + twist)
    with pytest.raises(ValueError, match=r"training|recipe\.yaml"):
        Config.from_dict(read_recipe(tmp_path / "recipe.yaml")[0])


@pytest.mark.parametrize("ask", [read_settings, read_recipe])
def test_aliases_do_not_explode(tmp_path, ask):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for n in range(1, 12):
        lines.append(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]")
    (tmp_path / CONFIG).write_text("\n".join(lines))
    with pytest.raises(ValueError, match="expand to more than"):
        ask(tmp_path / CONFIG)
    (tmp_path / CONFIG).write_text("base: &b {lr: 1}\nmore: &m {<<: *b, epochs: 2}\nlast: *m\n")
    assert read_settings(tmp_path / CONFIG)["last"] == {"lr": 1, "epochs": 2}


STATE_VALUES = VALUES | st.sampled_from(
    [{"__kind__": "tensor", "value": "x"}, {"__kind__": "exec", "value": 1}, {"__kind__": "dict"}]
)


@budget(80)
@given(data=st.data())
def test_changed_checkpoints(tmp_path, data):
    """With hashes that fit, so that only the reader itself can notice."""
    folder = CheckpointFolder(tmp_path / "checkpoint")
    moment = Moment(0, Moment.END)
    folder.save(
        moment, {"model": {"w": torch.ones(2)}, "betas": (0.9, 1), 3: {"a"}, "n": [1, None]}
    )
    place = folder.path / moment.folder
    content = json.loads((place / STATE).read_text())
    (place / STATE).write_text(json.dumps(changed(data, content, STATE_VALUES)))
    if data.draw(st.integers(0, 3)) == 0:
        (place / TENSORS).write_bytes(changed_bytes(data, (place / TENSORS).read_bytes(), [b"F64"]))
    hashes = {name: file_hash(place / name) for name in (TENSORS, STATE)}
    (place / HASHES).write_text(json.dumps(hashes))
    try:
        folder.load(moment)
    except DamagedError as error:
        assert moment.folder in str(error)  # noqa: PT017


@pytest.fixture(scope="module")
def taught(tmp_path_factory) -> dict:
    """The state of a learner that was taught two classes."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), dtype=np.uint8)
    learner = Learner(backbone="test_resnet", pretrained=None, image_size=16)
    learner.learn((list(pixels), torch.eye(2).repeat(4, 1)), class_names=["cat", "dog"])
    return read_learner(learner.save(tmp_path_factory.mktemp("taught") / "pets.rebll"))


@budget(80)
@given(data=st.data())
def test_forged_learners(tmp_path, taught, data):
    """With hashes that fit: refused, or it answers with probabilities and can be shown."""
    odd = STATE_VALUES | st.sampled_from([torch.zeros(3), torch.full((2,), torch.nan), 10**9])
    weights = taught["backbone"]
    forged = changed(data, {key: value for key, value in taught.items() if key != "backbone"}, odd)
    write_learner(tmp_path / "pets.rebll", forged | {"backbone": weights})
    try:
        learner = Learner.load(tmp_path / "pets.rebll")
        scores = learner.scores(np.zeros((16, 16, 3), np.uint8))
    except RebllError as error:
        assert str(error)  # noqa: PT017
        return
    assert scores.shape == (1, len(learner.class_names))
    assert bool(((scores >= 0) & (scores <= 1)).all())
    assert [str(lesson) for lesson in learner.lessons]
    assert all(0 <= threshold <= 1 for threshold in learner.thresholds.values())


@pytest.mark.parametrize(
    "change", ["one is lost", "one is a text", "no dictionary", "another shape"]
)
def test_forged_weights_of_a_backbone_are_refused(tmp_path, taught, change):
    weights = dict(taught["backbone"])
    name = next(iter(weights))
    if change == "one is lost":
        del weights[name]
    else:
        weights[name] = "text" if change == "one is a text" else torch.zeros(1)
    forged = "text" if change == "no dictionary" else weights
    write_learner(tmp_path / "pets.rebll", taught | {"backbone": forged})
    with pytest.raises(RebllError, match="weights in this learner's file do not fit"):
        Learner.load(tmp_path / "pets.rebll").scores(np.zeros((16, 16, 3), np.uint8))


NUMBERS = st.sampled_from([0.0, 1.0, 0.5, -1.0, 3e38, -3e38, 1e-40, float("nan"), float("inf")])
LABELS = st.sampled_from([0.0, 1.0, float("nan")])


def matrix(data, numbers, rows, columns):
    cells = data.draw(st.lists(numbers, min_size=rows * columns, max_size=rows * columns))
    return torch.tensor(cells).reshape(rows, columns)


SHAPE = {"rows": st.integers(0, 5), "columns": st.integers(0, 3)}


@budget(100)
@given(data=st.data(), **SHAPE)
def test_metrics_of_any_numbers(data, rows, columns):
    """A fraction, or NaN where nothing is defined; annotated scores that are no numbers are refused."""
    scores = matrix(data, NUMBERS, rows, columns)
    labels = matrix(data, LABELS if data.draw(st.booleans()) else NUMBERS, rows, columns)
    try:
        found = metrics.multilabel_scores(scores, labels)
    except ValueError as error:
        assert str(error)  # noqa: PT017
        return
    assert bool(scores[labels.isfinite()].isfinite().all())
    values = [found.mean_average_precision, *found.average_precision.tolist()]
    assert all(value != value or 0 <= value <= 1 for value in values)


@budget(60)
@given(data=st.data(), exponent=st.floats(0, 8), **SHAPE)
@pytest.mark.parametrize("name", ["bce_loss", "cls_loss", "akd_loss", "er_loss"])
def test_losses_of_any_numbers(data, name, exponent, rows, columns):
    """Finite logits and labels of 1, 0 and NaN give a finite loss and finite gradients."""
    logits = matrix(data, NUMBERS, rows, columns).requires_grad_()
    targets = matrix(data, LABELS if data.draw(st.booleans()) else NUMBERS, rows, columns)
    options = {} if name == "bce_loss" else {"exponent": exponent}
    try:
        loss = getattr(losses, name)(logits, targets, **options)
    except ValueError as error:
        assert str(error)  # noqa: PT017
        return
    usual = bool(((targets == 0) | (targets == 1) | targets.isnan()).all())
    if usual and bool((logits.detach().abs() <= 100).all()) and logits.numel():
        loss.backward()
        assert bool(loss.isfinite())
        assert bool(logits.grad.isfinite().all())


@budget(50)
@given(data=st.data(), capacity=st.integers(0, 6), columns=st.integers(1, 3))
@pytest.mark.parametrize("name", POLICIES)
def test_sampling_of_any_labels(data, name, capacity, columns):
    """Whatever comes, at most so many rows stay, each once, and those that exist."""
    policy = POLICIES[name]()
    kept = torch.zeros(0, columns)
    for _ in range(3):
        rows = data.draw(st.integers(0, 5))
        arriving = matrix(data, LABELS, rows, columns)
        features = {"features": torch.rand(rows, 2)} if name == "herding" else {}
        chosen = policy.select(kept, arriving, capacity, **features)
        assert len(chosen) <= capacity
        assert chosen.tolist() == sorted(set(chosen.tolist()))
        kept = torch.cat([kept, arriving])[chosen]
