import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebll_avalanche.report.style import (
    SERIES,
    THEME,
    canvas,
    inline_svg,
    looks,
    spread_apart,
    svg_text,
)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first, second):
    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_everything_stands_out_from_the_page(theme):
    paper = THEME["paper"][theme]
    assert contrast(THEME["ink"][theme], paper) > 12
    assert contrast(THEME["muted"][theme], paper) > 4.5
    for name, colours in THEME.items():
        if name.startswith("series"):
            assert contrast(colours[theme], paper) > 3, name


def test_colours_can_be_told_apart_by_their_text():
    drawn = [colours[0] for colours in THEME.values()]
    assert len(set(drawn)) == len(drawn)


def test_a_method_has_one_colour_and_its_variants_differ_in_dashes():
    found = looks([("rebll", "RebLL"), ("akd", "AKD 1"), ("akd", "AKD 2"), ("mine", "Mine")])
    assert found["RebLL"].colour == SERIES[0]
    assert found["AKD 1"].colour == found["AKD 2"].colour
    assert found["AKD 1"].dashes != found["AKD 2"].dashes
    assert len({found[name].colour for name in ("RebLL", "AKD 1", "Mine")}) == 3
    assert looks([("rebll", "RebLL")])["RebLL"] == found["RebLL"]


def test_more_methods_than_colours_can_still_be_told_apart():
    found = looks([("rebll", "RebLL"), *((f"m{n}", f"M{n}") for n in range(30))])
    assert len({(look.colour, look.dashes) for look in found.values()}) == 31
    assert len({look.colour for look in found.values()}) == len(SERIES)


@example([0.84, 0.99, 1.0])
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_labels_keep_their_distance_and_their_order(wanted):
    places = spread_apart(wanted, gap=0.1, low=0.0, high=1.0)
    ordered = [place for _, place in sorted(zip(wanted, places, strict=True))]
    assert all(b - a >= 0.1 - 1e-9 for a, b in itertools.pairwise(sorted(places)))
    assert ordered == sorted(ordered)
    assert min(places) >= -1e-9
    assert max(places) <= 1 + 1e-9


def test_labels_with_room_stay_where_they_are():
    assert spread_apart([0.9, 0.1, 0.5], gap=0.1, low=0.0, high=1.0) == [0.9, 0.1, 0.5]


def drawing():
    with canvas(300, 200) as (figure, axes):
        axes.plot([0, 1], [2, 3], color=SERIES[0], marker="o")
        axes.set_xlabel("a < b")
    return figure


def test_the_same_figure_gives_the_same_text():
    assert svg_text(drawing()) == svg_text(drawing())


def test_an_inline_drawing_takes_its_colours_and_fonts_from_the_page():
    svg = inline_svg(svg_text(drawing()), "panel-1", 'of "a" & b')
    assert svg.startswith(
        '<svg role="img" aria-label="of &quot;a&quot; &amp; b" style="max-width:300px"'
    )
    assert 'viewBox="0 0 300 200"' in svg
    assert "var(--series-0)" in svg
    assert "var(--muted)" in svg
    assert "a &lt; b" in svg
    assert not any(colour in svg for colour, _ in THEME.values())
    assert "http" not in svg
    assert "font-family" not in svg
    assert "<style" not in svg
    identifiers = re.findall(r' id="([^"]+)"', svg)
    assert identifiers
    assert all(name.startswith("panel-1-") for name in identifiers)
    assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg)) <= set(identifiers)
