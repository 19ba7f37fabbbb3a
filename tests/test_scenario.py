"""Which classes arrive when."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebll_avalanche.scenario import Scenario, class_range

NAMES = ["dog", "cat", "bus", "ant"]


@pytest.mark.parametrize(
    ("text", "num_classes", "sizes"),
    [
        ("B5-C3", 20, (5, 3, 3, 3, 3, 3)),
        ("B4-C2", 20, (4, 2, 2, 2, 2, 2, 2, 2, 2)),
        ("B10-C2", 20, (10, 2, 2, 2, 2, 2)),
        ("B0-C4", 20, (4, 4, 4, 4, 4)),
        ("b20-c4", 80, (20, *[4] * 15)),
        ("B0-C5", 80, (5,) * 16),
        ("B20-C0", 20, (20,)),
    ],
)
def test_names_of_the_field_give_the_sizes_of_the_field(text, num_classes, sizes):
    scenario = Scenario.parse(text, num_classes)
    assert scenario.sizes == sizes
    assert len(scenario) == len(sizes)
    assert scenario.num_classes == num_classes
    assert scenario.name == text


def test_ranges_cut_the_columns_without_gap_or_overlap():
    assert Scenario.parse("B5-C3", 20).ranges == [
        (0, 5), (5, 8), (8, 11), (11, 14), (14, 17), (17, 20),
    ]  # fmt: skip


@given(base=st.integers(0, 30), step=st.integers(0, 12), num_classes=st.integers(1, 40))
def test_what_is_accepted_holds_every_class_once_and_what_is_refused_says_why(
    base, step, num_classes
):
    text = f"B{base}-C{step}"
    rest = num_classes - base
    if rest < 0 or (rest and (step == 0 or rest % step)):
        with pytest.raises(ValueError, match=text):
            Scenario.parse(text, num_classes)
        return
    scenario = Scenario.parse(text, num_classes)
    columns = [column for lo, hi in scenario.ranges for column in range(lo, hi)]
    assert columns == list(range(num_classes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B5-C4", "B5-C4 leaves 15 classes, not a multiple of 4; C3 or C5 fit"),
        ("B0-C19", "B0-C19 leaves 20 classes, not a multiple of 19; C10 or C20 fit"),
        ("B5-C16", "leaves 15 classes, not a multiple of 16; C15 fits"),
        ("B5-C0", "leaves 15 classes, not a multiple of 0; C1 fits"),
        ("B21-C1", "starts with 21 classes, but there are only 20"),
        ("five then three", "is not of the form 'Bx-Cy'"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(text, message):
    with pytest.raises(ValueError, match=message):
        Scenario.parse(text, 20)


def test_the_default_order_is_alphabetical_by_name():
    assert Scenario.parse("B2-C1", class_names=NAMES).class_order == (3, 2, 1, 0)
    assert Scenario.parse("B2-C1", num_classes=4).class_order == (0, 1, 2, 3)


def test_an_order_may_be_listed_by_name_or_index():
    by_name = Scenario.parse("B2-C1", class_names=NAMES, class_order=["cat", "ant", "dog", "bus"])
    by_index = Scenario.parse("B2-C1", num_classes=4, class_order=[1, 3, 0, 2])
    assert by_name.class_order == by_index.class_order == (1, 3, 0, 2)


def test_a_seeded_order_does_not_depend_on_the_columns_of_the_data_set():
    def names(given_order):
        scenario = Scenario.parse("B2-C1", class_names=given_order, class_order=7)
        return [given_order[index] for index in scenario.class_order]

    assert names(NAMES) == names(sorted(NAMES))
    orders = {Scenario.parse("B2-C2", num_classes=10, class_order=s).class_order for s in range(5)}
    assert len(orders) == 5


def test_experiences_may_be_listed():
    scenario = Scenario.parse([["cat"], ["dog", "ant", "bus"]], class_names=NAMES)
    assert scenario.sizes == (1, 3)
    assert scenario.class_order == (1, 0, 3, 2)
    assert scenario.name == "1+3"


@pytest.mark.parametrize(
    ("experiences", "message"),
    [
        ([["cat"], ["dog", "cat", "ant", "bus"]], "arrive more than once: cat"),
        ([["cat"], ["dog"]], "classes that never arrive: bus, ant"),
        ([["cat"], ["dog", "ant", "bus", "cow"]], "class 'cow' is not one of the data set's"),
        ([[], ["cat", "dog", "ant", "bus"]], "must add at least 1 class.*got sizes"),
    ],
)
def test_lists_that_do_not_hold_every_class_once_are_refused(experiences, message):
    with pytest.raises(ValueError, match=message):
        Scenario.parse(experiences, class_names=NAMES)


def test_bad_arguments_name_the_way_out():
    with pytest.raises(ValueError, match="num_classes"):
        Scenario.parse("B5-C3")
    with pytest.raises(ValueError, match="4 class names for 5 classes"):
        Scenario.parse("B2-C1", 5, class_names=NAMES)
    with pytest.raises(ValueError, match="repeated: cat"):
        Scenario.parse("B1-C1", class_names=["cat", "cat"])
    with pytest.raises(ValueError, match="'by size'"):
        Scenario.parse("B2-C1", class_names=NAMES, class_order="by size")
    with pytest.raises(ValueError, match="is for 4 classes, but the data have 5"):
        Scenario.parse(Scenario.parse("B2-C1", 4), 5)
    with pytest.raises(ValueError, match="hold 3 in total"):
        Scenario((1, 2), (0, 1))
    with pytest.raises(ValueError, match="once"):
        Scenario((2,), (0, 0))


def test_class_range_reads_the_timeline_of_an_experience():
    experience = SimpleNamespace(previous_classes={0, 1}, classes_seen_so_far={0, 1, 2, 3, 4})
    assert class_range(experience) == (2, 5)
    with pytest.raises(ValueError, match="SimpleNamespace does not state"):
        class_range(SimpleNamespace())


def test_classes_that_do_not_come_in_order_are_refused():
    """Columns are taken by position, so others would be learned without a word."""
    experience = SimpleNamespace(previous_classes={3, 7}, classes_seen_so_far={0, 1, 3, 7})
    with pytest.raises(ValueError, match=r"in order of appearance.*\[3, 7\]"):
        class_range(experience)
