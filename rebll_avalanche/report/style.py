"""Style of all figures: colours that suit colour-blind readers, dark pages and print."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Each colour as it is drawn (for light pages and paper) and as dark pages replace it. Every one of
# them must be a different string, because a page swaps them for CSS variables by their text.
INK, MUTED, RULE, PAPER = "#1c2126", "#59636e", "#dfe3e8", "#fffffe"
THEME = {
    "ink": (INK, "#e8eaed"),
    "muted": (MUTED, "#9ea7b1"),
    "rule": (RULE, "#33393f"),
    "paper": (PAPER, "#14171a"),
    "series-0": ("#d1500a", "#ff8f4d"),
    "series-1": ("#0069b4", "#5eb3f5"),
    "series-2": ("#00875f", "#3fcf9f"),
    "series-3": ("#a8328f", "#ec8bd6"),
    "series-4": ("#a87400", "#f0c04a"),
    "series-5": ("#5a48b8", "#a99df8"),
    "series-6": ("#0f95a8", "#62d5e5"),
    "series-7": ("#96203f", "#f57f97"),
    "series-8": ("#66761a", "#bccf5a"),
    "series-9": ("#77706a", "#b9b2ab"),
}
SERIES = [colours[0] for name, colours in THEME.items() if name.startswith("series")]
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (5, 1.6, 1.2, 1.6)))
MARKERS = "osD^vPX*<>"

# The method of the paper and its nearest rivals look the same in every report.
HOME = {
    "rebll": 0,
    "lwf": 1,
    "er": 2,
    "akd": 4,
    "csc": 5,
    "krt": 3,
    "agcn": 6,
    "der++": 7,
    "fine-tuning": 9,
}

RC = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "rebll",
    "text.color": INK,
    "text.parse_math": False,  # class names may contain dollar signs
    "axes.labelcolor": MUTED,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "ytick.major.size": 0,
    "lines.linewidth": 2,
    "lines.markersize": 4,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True)
class Look:
    """How an experiment is drawn in every figure."""

    colour: str
    dashes: Any = "-"
    marker: str = "o"


def looks(experiments: Iterable[tuple[str, str]]) -> dict[str, Look]:
    """A look for each ``(method, label)``: a colour per method, a dash pattern per variant of it."""
    variants: dict[str, dict[str, None]] = {}
    for method, label in experiments:
        variants.setdefault(method, {})[label] = None
    places = {method: HOME[method] for method in variants if method in HOME}
    # Unused colours first; when all are used, they repeat with other dashes.
    free = (place for place in itertools.count() if place not in places.values())
    places |= {method: next(free) for method in variants if method not in HOME}
    return {
        label: Look(
            SERIES[place % len(SERIES)],
            DASHES[(place // len(SERIES) + number) % len(DASHES)],
            MARKERS[(place + place // len(SERIES)) % len(MARKERS)],
        )
        for method, labels in variants.items()
        for number, label in enumerate(labels)
        for place in [places[method]]
    }


@contextmanager
def canvas(width: float, height: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure with a size in CSS pixels, in the style of this package."""
    with mpl.rc_context(RC):
        figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
        yield figure, figure.subplots()


def spread_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, at least ``gap`` apart, inside ``[low, high]`` if there is room.

    >>> spread_apart([0.50, 0.51, 0.90], gap=0.1, low=0.0, high=1.0)
    [0.455, 0.555, 0.9]
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    clusters: list[list[int]] = []

    def centre(members: list[int]) -> float:
        half = gap * (len(members) - 1) / 2
        mean = sum(wanted[index] for index in members) / len(members)
        return min(max(mean, low + half), high - half)

    for index in order:
        members = [index]
        while clusters:
            reach = gap * (len(clusters[-1]) + len(members)) / 2
            if centre(members) - centre(clusters[-1]) >= reach:
                break
            members = clusters.pop() + members
        clusters.append(members)
    places = dict.fromkeys(order, 0.0)
    for members in clusters:
        first = centre(members) - gap * (len(members) - 1) / 2
        places |= {index: round(first + gap * place, 12) for place, index in enumerate(members)}
    return [places[index] for index in range(len(wanted))]


def end_labels(axes: Axes, ends: Sequence[tuple[float, float, str, str]], size: float = 9) -> None:
    """Write each line's name beside its end instead of in a legend.

    Args:
        axes: Axes with final limits; the text is outside on the right.
        ends: ``(x, y, text, colour)`` of each line.
        size: Font size in points.
    """
    low, high = axes.get_ylim()
    points = axes.get_window_extent().height * 72 / axes.figure.dpi
    gap = 1.25 * size * (high - low) / points
    places = spread_apart([end[1] for end in ends], gap, low, high)
    right = axes.get_xlim()[1]
    for (x, y, text, colour), place in zip(ends, places, strict=True):
        if x < right:  # an unfinished run: its label is at the right as well
            axes.plot([x, right], [y, y], color=colour, linewidth=0.5, alpha=0.5)
        axes.annotate(
            text,
            (right, y),
            xytext=(14, place),
            textcoords=("offset points", "data"),
            va="center",
            color=colour,
            fontsize=size,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": colour, "linewidth": 0.6, "relpos": (0, 0.5),
                "shrinkA": 2, "shrinkB": 3,
            },
        )  # fmt: skip


def svg_text(figure: Figure) -> str:
    """The figure as an SVG document; the same figure gives the same text."""
    stream = io.StringIO()
    with mpl.rc_context(RC):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def inline_svg(document: str, name: str, description: str) -> str:
    """Convert an SVG document to an inline element that takes its colours from the page.

    Args:
        document: The result of :func:`svg_text`.
        name: Prefix of every id, because ids must be unique in the page.
        description: Alternative text for screen readers.
    """
    svg = document[document.index("<svg") :].strip()
    # The page sets the fonts, HTML needs no namespaces, and matplotlib's styles would affect the page.
    for unwanted in (
        r"<metadata>.*?</metadata>\s*",
        r"<style.*?</style>\s*",
        r"font-family: [^;\"]*;? ?",
        r' xmlns(?::xlink)?="[^"]*"',
        r' transform="rotate\(-0 [^"]*"',
    ):
        svg = re.sub(unwanted, "", svg, flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)([^)"]+)', rf"\g<1>{name}-\g<2>", svg)
    for variable, (colour, _) in THEME.items():
        svg = svg.replace(colour, f"var(--{variable})")
    svg = re.sub(r'^<svg width="([\d.]+)pt" height="[^"]*"', r'<svg style="max-width:\1px"', svg)
    return f'<svg role="img" aria-label="{escape(description)}"{svg.removeprefix("<svg")}'
